// Columns of numbers as page.py packs them: base64 of the narrowest type that fits, as differences where that is less.

const ARRAYS = { u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };

/** The numbers of a column. Differences start anew, from their base, at every offset of `first`. */
function unpack(column, first) {
  const text = atob(column.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stored = new ARRAYS[column.type](bytes.buffer);
  if (!column.bases) return stored;
  const values = new Float64Array(stored.length);
  column.bases.forEach((base, segment) => {
    let value = base;
    for (let i = first[segment]; i < first[segment + 1]; i++) values[i] = value += stored[i];
  });
  return values;
}

/** Unpacks every column of a table. */
function unpackTable(table, first) {
  return Object.fromEntries(Object.entries(table).map(([name, column]) => [name, unpack(column, first)]));
}

/** The first index in [low, high) whose value is more than `limit`; the values ascend. */
function firstAbove(values, limit, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}
