"""What a mixture of experts does to rows: choosing experts, sorting by them, quantising for them."""
