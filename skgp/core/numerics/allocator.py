"""A setting of the C library's allocator, which holds for the whole process."""

import torch

_LARGEST_KEPT = 2**25 - 2**16  # bytes, just below what glibc can learn to keep


def keep_freed_blocks() -> None:
    """Let glibc use freed blocks of a few megabytes again instead of returning them to the system.

    Each training step frees its blocks of M x B numbers. The next one would have every page of them
    mapped anew, which takes a twentieth of its time or more. The allocator keeps what is smaller
    than the largest block that has been freed. This one is freed before any page of it is touched.

    It is the only setting of the process that training changes: from then on the process may keep
    up to that much memory of its freed blocks. With another allocator nothing happens.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)
