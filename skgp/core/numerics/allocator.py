"""A setting of the C library's allocator, which holds for the whole process."""

import torch

_LARGEST_KEPT = 2**25 - 2**16  # bytes, just below what glibc can learn to keep


def keep_freed_blocks() -> None:
    """Let glibc use freed blocks of a few megabytes again instead of returning them to the system.

    Each training step frees its blocks of M x B numbers. The next step would map every page of them
    anew, which takes time. The allocator keeps blocks that are smaller than the largest one freed
    so far. So this function frees a large block, without touching any page of it.

    Training changes no other setting of the process. From then on the process may keep up to that
    much memory of freed blocks. With another allocator nothing happens.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)
