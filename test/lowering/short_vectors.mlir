// Where a vector of comparisons decides, elements are compared and chosen one by one, a few at a time, and constants are
// compared with what is left of a limit; arithmetic with a splat is done in pairs, whose scalar has a register of its own,
// unless nothing is repeated and few arguments are given.

// RUN: ckmlir-opt %s --ck-lower-fragments | filecheck %s

module attributes {ck.target = "gfx942"} {
  // Columns too far apart to be bits of one number: the second four compare with a limit that waits for what the first
  // four chose.
  // CHECK-LABEL: llvm.func @below
  // CHECK: %[[LEFT:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}})
  // CHECK-NOT: arith.addi
  // CHECK-COUNT-4: arith.cmpi slt, %{{.*}}, %[[LEFT]] : i32
  // CHECK-COUNT-4: arith.select {{.*}} : f32
  // CHECK: %[[NEXT:.*]] = llvm.inline_asm "", "=v,0,v,v,v,v" %[[LEFT]],
  // CHECK-COUNT-4: arith.cmpi slt, %{{.*}}, %[[NEXT]] : i32
  // CHECK-COUNT-4: arith.select {{.*}} : f32
  // CHECK-NOT: arith.cmpi
  // CHECK: llvm.return
  func.func @below(%s: vector<8xf32>, %lane: i32, %limit: i32, %other: f32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 64, 65, 66, 67]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %limits = vector.broadcast %limit : i32 to vector<8xi32>
    %inside = arith.cmpi slt, %column, %limits : vector<8xi32>
    %others = vector.broadcast %other : f32 to vector<8xf32>
    %kept = arith.select %inside, %s, %others : vector<8xi1>, vector<8xf32>
    return
  }

  // Constants are not compared element by element: LLVM makes the choice.
  // CHECK-LABEL: llvm.func @known
  // CHECK-NOT: llvm.inline_asm
  // CHECK: arith.select %{{.*}} : vector<8xi1>, vector<8xf32>
  // CHECK: llvm.return
  func.func @known(%s: vector<8xf32>, %other: f32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 0, 1, 2, 3]> : vector<8xi32>
    %zero = arith.constant 0 : i32
    %two = arith.constant 2 : i32
    %base = vector.broadcast %zero : i32 to vector<8xi32>
    %place = arith.addi %base, %numbers overflow<nsw> : vector<8xi32>
    %limits = vector.broadcast %two : i32 to vector<8xi32>
    %chosen = arith.cmpi eq, %place, %limits : vector<8xi32>
    %others = vector.broadcast %other : f32 to vector<8xf32>
    %kept = arith.select %chosen, %s, %others : vector<8xi1>, vector<8xf32>
    return
  }

  // A sum that may overflow stays on its side, and so does any that is compared as unsigned: one addition an element.
  // CHECK-LABEL: llvm.func @between
  // CHECK-NOT: ssub
  // CHECK: %[[FIRST:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
  // CHECK: arith.addi %[[FIRST]], %{{.*}} : i32
  // CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : i32
  // CHECK: llvm.return
  func.func @between(%s: vector<2xf32>, %lane: i32, %first: i32, %length: i32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1]> : vector<2xi32>
    %lanes = vector.broadcast %lane : i32 to vector<2xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<2xi32>
    %firsts = vector.broadcast %first : i32 to vector<2xi32>
    %distance = arith.subi %column, %firsts : vector<2xi32>
    %lengths = vector.broadcast %length : i32 to vector<2xi32>
    %inside = arith.cmpi ult, %distance, %lengths : vector<2xi32>
    %kept = arith.select %inside, %s, %s : vector<2xi1>, vector<2xf32>
    return
  }

  // Without the promise that the sum does not overflow, sums are compared.
  // CHECK-LABEL: llvm.func @wraps
  // CHECK-NOT: ssub
  // CHECK: arith.addi %{{.*}}, %{{.*}} : i32
  // CHECK: llvm.return
  func.func @wraps(%s: vector<2xf32>, %lane: i32, %limit: i32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1]> : vector<2xi32>
    %lanes = vector.broadcast %lane : i32 to vector<2xi32>
    %column = arith.addi %lanes, %numbers : vector<2xi32>
    %limits = vector.broadcast %limit : i32 to vector<2xi32>
    %inside = arith.cmpi slt, %column, %limits : vector<2xi32>
    %kept = arith.select %inside, %s, %s : vector<2xi1>, vector<2xf32>
    return
  }

  // Joined conditions are made element by element too, each limit waiting; a limit on the left changes sides with its
  // comparison, and one that is a constant waits as others do.
  // CHECK-LABEL: llvm.func @joined
  // CHECK: %[[LEFT:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}})
  // CHECK: %[[FAR:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}})
  // CHECK-NOT: vector<8xi1>
  // CHECK: arith.cmpi sle, %{{.*}}, %[[LEFT]] : i32
  // CHECK: arith.cmpi sgt, %{{.*}}, %[[FAR]] : i32
  // CHECK: arith.cmpf ogt, %{{.*}}, %{{.*}} : f32
  // CHECK: arith.ori %{{.*}}, %{{.*}} : i1
  // CHECK: arith.andi %{{.*}}, %{{.*}} : i1
  // CHECK: arith.select {{.*}} : f32
  // CHECK-COUNT-3: llvm.inline_asm "", "=v,0,v,v,v,v"
  // CHECK: arith.cmpi sle
  // CHECK: llvm.return
  func.func @joined(%s: vector<8xf32>, %lane: i32, %limit: i32, %far: i32, %other: f32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 8, 9, 10, 11]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %limits = vector.broadcast %limit : i32 to vector<8xi32>
    %inside = arith.cmpi sle, %column, %limits : vector<8xi32>
    %fars = vector.broadcast %far : i32 to vector<8xi32>
    %near = arith.cmpi slt, %fars, %column : vector<8xi32>
    %zero = arith.constant dense<0.0> : vector<8xf32>
    %positive = arith.cmpf ogt, %s, %zero : vector<8xf32>
    %either = arith.ori %near, %positive : vector<8xi1>
    %both = arith.andi %inside, %either : vector<8xi1>
    %others = vector.broadcast %other : f32 to vector<8xf32>
    %kept = arith.select %both, %s, %others : vector<8xi1>, vector<8xf32>
    return
  }

  // Parts of joined conditions: the second choice waits for what the first made.
  // CHECK-LABEL: llvm.func @parts
  // CHECK-COUNT-4: arith.select {{.*}} : f32
  // CHECK-COUNT-2: llvm.inline_asm "", "=v,0,v,v,v,v"
  // CHECK-COUNT-4: arith.select {{.*}} : f32
  func.func @parts(%s: vector<4xf32>, %t: vector<8xf32>, %x: f32, %y: f32) attributes {ck.waves = 1 : i32} {
    %xs = vector.broadcast %x : f32 to vector<8xf32>
    %ys = vector.broadcast %y : f32 to vector<8xf32>
    %more = arith.cmpf ogt, %t, %xs : vector<8xf32>
    %less = arith.cmpf olt, %t, %ys : vector<8xf32>
    %both = arith.andi %more, %less : vector<8xi1>
    %first = vector.extract_strided_slice %both {offsets = [0], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %second = vector.extract_strided_slice %both {offsets = [4], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %others = vector.broadcast %x : f32 to vector<4xf32>
    %a = arith.select %first, %s, %others : vector<4xi1>, vector<4xf32>
    %b = arith.select %second, %s, %others : vector<4xi1>, vector<4xf32>
    return
  }

  // So do parts of one comparison, where each choice is of so few elements that nothing in it waits.
  // CHECK-LABEL: llvm.func @slices
  // CHECK: %[[LEFT:.*]] = llvm.intr.ssub.sat(%{{.*}}, %{{.*}})
  // CHECK-COUNT-4: arith.cmpi slt, %{{.*}}, %[[LEFT]] : i32
  // CHECK-COUNT-4: arith.select {{.*}} : f32
  // CHECK: %[[NEXT:.*]] = llvm.inline_asm "", "=v,0,v,v,v,v" %[[LEFT]],
  // CHECK-COUNT-4: arith.cmpi slt, %{{.*}}, %[[NEXT]] : i32
  func.func @slices(%s: vector<4xf32>, %lane: i32, %limit: i32, %other: f32) attributes {ck.waves = 1 : i32} {
    %numbers = arith.constant dense<[0, 1, 2, 3, 8, 9, 10, 11]> : vector<8xi32>
    %lanes = vector.broadcast %lane : i32 to vector<8xi32>
    %column = arith.addi %lanes, %numbers overflow<nsw> : vector<8xi32>
    %limits = vector.broadcast %limit : i32 to vector<8xi32>
    %inside = arith.cmpi slt, %column, %limits : vector<8xi32>
    %first = vector.extract_strided_slice %inside {offsets = [0], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %second = vector.extract_strided_slice %inside {offsets = [4], sizes = [4], strides = [1]} : vector<8xi1> to vector<4xi1>
    %others = vector.broadcast %other : f32 to vector<4xf32>
    %a = arith.select %first, %s, %others : vector<4xi1>, vector<4xf32>
    %b = arith.select %second, %s, %others : vector<4xi1>, vector<4xf32>
    return
  }

  // An argument is one of several numbers that a load brings, and so gets a register of its own, once, where arguments
  // fill most scalar registers.
  // CHECK-LABEL: llvm.func @scaled
  // CHECK-SAME: (%[[VECTOR:.*]]: vector<4xf32>, %[[SCALE:.*]]: f32, %{{.*}}: vector<64xf32>)
  // CHECK: %[[OWN:.*]] = llvm.inline_asm "", "=s,0" %[[SCALE]] : (f32) -> f32
  // CHECK: vector.broadcast %[[OWN]] : f32 to vector<2xf32>
  // CHECK-NOT: llvm.inline_asm
  // CHECK-COUNT-2: arith.mulf %{{.*}}, %{{.*}} fastmath<contract> : vector<2xf32>
  // CHECK-NOT: arith.mulf
  // CHECK: arith.addf %{{.*}}, %{{.*}} : vector<4xf32>
  // CHECK: llvm.return
  func.func @scaled(%s: vector<4xf32>, %scale: f32, %others: vector<64xf32>) attributes {ck.waves = 1 : i32} {
    %scales = vector.broadcast %scale : f32 to vector<4xf32>
    %product = arith.mulf %s, %scales fastmath<contract> : vector<4xf32>
    %sum = arith.addf %product, %s : vector<4xf32>
    return
  }

  // With few arguments no step takes a move for it, and without a loop vectors stay whole.
  // CHECK-LABEL: llvm.func @scaled_beside_few
  // CHECK-NOT: llvm.inline_asm
  // CHECK: arith.mulf %{{.*}}, %{{.*}} fastmath<contract> : vector<4xf32>
  // CHECK: llvm.return
  func.func @scaled_beside_few(%s: vector<4xf32>, %scale: f32) attributes {ck.waves = 1 : i32} {
    %scales = vector.broadcast %scale : f32 to vector<4xf32>
    %product = arith.mulf %s, %scales fastmath<contract> : vector<4xf32>
    return
  }

  // In a kernel that repeats something there are pairs, before the loop as well.
  // CHECK-LABEL: llvm.func @scaled_before_a_loop
  // CHECK-NOT: llvm.inline_asm
  // CHECK-COUNT-2: arith.mulf %{{.*}}, %{{.*}} fastmath<contract> : vector<2xf32>
  // CHECK: llvm.return
  func.func @scaled_before_a_loop(%s: vector<4xf32>, %scale: f32, %end: i32) attributes {ck.waves = 1 : i32} {
    %one = arith.constant 1 : i32
    %scales = vector.broadcast %scale : f32 to vector<4xf32>
    %product = arith.mulf %s, %scales fastmath<contract> : vector<4xf32>
    cf.br ^step(%one : i32)
  ^step(%at: i32):
    %next = arith.addi %at, %one : i32
    %more = arith.cmpi slt, %next, %end : i32
    cf.cond_br %more, ^step(%next : i32), ^behind
  ^behind:
    return
  }

  // What memory holds gets one too; what is computed has one anyway.
  // CHECK-LABEL: llvm.func @found
  // CHECK: %[[LOADED:.*]] = llvm.load
  // CHECK: %[[OWN:.*]] = llvm.inline_asm "", "=s,0" %[[LOADED]] : (f32) -> f32
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<2xf32>
  // CHECK: %[[MADE:.*]] = arith.negf %[[LOADED]] : f32
  // CHECK-NOT: llvm.inline_asm
  // CHECK: vector.broadcast %[[MADE]] : f32 to vector<2xf32>
  // CHECK: llvm.return
  func.func @found(%s: vector<2xf32>, %p: !llvm.ptr<1>, %all: vector<64xf32>) attributes {ck.waves = 1 : i32} {
    %loaded = llvm.load %p invariant : !llvm.ptr<1> -> f32
    %scales = vector.broadcast %loaded : f32 to vector<2xf32>
    %product = arith.mulf %s, %scales : vector<2xf32>
    %made = arith.negf %loaded : f32
    %others = vector.broadcast %made : f32 to vector<2xf32>
    %sum = arith.addf %product, %others : vector<2xf32>
    return
  }
}
