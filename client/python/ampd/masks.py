"""Builds the attention masks of transformers' models in a way whose trace can be saved.

transformers computes a mask from one question, "may this position look at that one?" (a mask function), for all
positions at once with torch.vmap, and a trace of vmap can't be saved. Here the same mask function gets tensors of
positions, which broadcast. Every mask uses its own function, so a model may mix layers with sliding, chunked and full
attention.
"""
import contextlib
import sys

import torch

__all__ = ["masks_without_vmap"]

UTILITIES = "transformers.masking_utils"


@contextlib.contextmanager
def masks_without_vmap():
    """Within this context, transformers builds masks by broadcasting. Does nothing if transformers is not loaded."""
    if UTILITIES not in sys.modules:  # no model of transformers was created
        yield
        return
    utilities = sys.modules[UTILITIES]
    mapping = utilities.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping
    ours = {"sdpa_mask": _mask, "and_masks": _all_of, "or_masks": _any_of,
            "find_packed_sequence_indices": _packed_sequences(utilities.find_packed_sequence_indices)}
    theirs, theirs_in_mapping = {name: getattr(utilities, name) for name in ours}, mapping["sdpa"]
    try:
        vars(utilities).update(ours)
        mapping["sdpa"] = _mask
        yield
    finally:
        vars(utilities).update(theirs)
        mapping["sdpa"] = theirs_in_mapping


def _all_of(*functions):
    """Returns a mask function that allows what all of the functions allow. It multiplies their results, because the
    import accepts this op for booleans."""
    def asked(*positions):
        allowed = functions[0](*positions)
        for function in functions[1:]:
            allowed = allowed * function(*positions)
        return allowed

    return asked


def _any_of(*functions):
    """Returns a mask function that allows what at least one of the functions allows, which is everything that not all
    of them forbid."""
    none = _all_of(*(lambda *positions, one=function: torch.logical_not(one(*positions)) for function in functions))
    return lambda *positions: torch.logical_not(none(*positions))


def _packed_sequences(find):
    """Wraps `find`: positions shared by all samples mean one sequence per sample, so there is nothing to separate."""
    return lambda position_ids: None if position_ids.stride(0) == 0 else find(position_ids)


def _mask(batch_size, cache_position, kv_length, kv_offset=0, mask_function=None, attention_mask=None, **unused):
    """Replaces transformers' sdpa_mask: (B, 1, T, K) booleans, True where a position may look.

    Always returns a mask. Using is_causal instead would depend on values that a trace doesn't have.
    """
    utilities = sys.modules[UTILITIES]
    keys = torch.arange(kv_length, device=cache_position.device)
    keys += kv_offset
    # A slice stands for the sample index: `packed[sample, position]` then has the batch in front, and broadcasts.
    allowed = (mask_function or utilities.causal_mask_function)(slice(None), 0, cache_position.view(-1, 1), keys.view(1, -1))
    if allowed.dim() < 3:  # the same for all samples
        allowed = allowed.expand(cache_position.shape[0], kv_length)[None]
    mask = allowed[:, None].expand(batch_size, -1, -1, -1)
    padding = utilities.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    return mask if padding is None else mask * padding[:, None, None, :]
