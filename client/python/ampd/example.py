"""Makes other inputs than the export's example, with which the programs are checked."""
import torch

__all__ = ["others"]

SEED = 20


def others(example_inputs, open_sizes):
    """Tuples of inputs to try in turn, until the model accepts one. They have a larger batch and other lengths and
    values; each is more like the example than the one before."""
    batch = example_inputs[0].shape[0] + 1
    lengths = _other_lengths(example_inputs, open_sizes)
    random = torch.Generator().manual_seed(SEED)

    def made(make, lengths):
        return tuple(make(_resized(tensor, batch, lengths, sizes), random)
                     for tensor, sizes in zip(example_inputs, open_sizes))

    tried = [made(_drawn, lengths), made(_drawn, {}), made(_mixed, {}), made(lambda tensor, _: tensor, {})]
    return tried if lengths else tried[1:]


def _other_lengths(example_inputs, open_sizes):
    """Returns {name of an open size: another size within its bounds}."""
    found = {}
    for tensor, sizes in zip(example_inputs, open_sizes):
        for dimension, size in sizes.items():
            if dimension > 0 and not hasattr(size, "root"):  # a size with a root is a multiple of another
                length = tensor.shape[dimension]
                found[size.__name__] = length + 1 if length < size.max else max(length - 1, size.min)
    return found


def _resized(tensor, batch, lengths, sizes):
    """Returns the tensor with the open sizes changed. Its rows and columns are repeated, from the first on, as often as
    needed."""
    for dimension, size in sizes.items():
        count = batch if dimension == 0 else lengths.get(size.__name__, tensor.shape[dimension])
        tensor = tensor.index_select(dimension, torch.arange(count) % tensor.shape[dimension])
    return tensor


def _is_mask(tensor):
    return tensor.dim() == 2 and not tensor.is_floating_point() and bool((tensor == 1).all())


def _drawn(tensor, random):
    """Random values like the tensor's: in its range if real, else some of its values; for a mask, shorter texts."""
    if tensor.numel() == 0 or tensor.is_complex():
        return tensor
    if _is_mask(tensor):
        lengths = torch.randint(1, tensor.shape[1] + 1, (tensor.shape[0], 1), generator=random)
        return (torch.arange(tensor.shape[1]) < lengths).to(tensor.dtype)
    low, high = tensor.min(), tensor.max()
    if not tensor.is_floating_point():
        if low == high == 0:  # include token or class 1 too
            return torch.randint(0, 2, tensor.shape, generator=random).to(tensor.dtype)
        return _mixed(tensor, random)
    if 0 <= low and high <= 1:
        return torch.rand(tensor.shape, generator=random, dtype=tensor.dtype)
    return torch.randn(tensor.shape, generator=random, dtype=tensor.dtype) * tensor.std() + tensor.mean()


def _mixed(tensor, random):
    """Returns a tensor of the tensor's own values, drawn at random."""
    if tensor.numel() == 0:
        return tensor
    return tensor.flatten()[torch.randint(0, tensor.numel(), tensor.shape, generator=random)]
