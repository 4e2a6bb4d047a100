"""What a mixture of experts does to rows: choosing experts, quantising for them."""
