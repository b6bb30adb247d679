"""The modes of a model's modules in its training program and in its evaluation program.

The evaluation program is the model after model.eval(). The training program is the model after model.train(), with one
exception: if some modules of the given model are in training mode and others in evaluation mode, as frozen norms are,
the training program keeps the mode of each module.
"""

__all__ = ["frozen_modules", "put_in_mode"]


def _has_both(model):
    return len({bool(module.training) for module in model.modules()}) == 2


def put_in_mode(model, program):
    """Puts the model in its mode for `program`, "train" or "eval", and returns it. Before the call, each module must be
    in the mode in which the user gave it."""
    return model if program == "train" and _has_both(model) else model.train(program == "train")


def frozen_modules(model):
    """Returns the paths of the modules that stay in evaluation mode in the training program; of nested ones, only the
    outermost. "the model itself" stands for a model that is in evaluation mode while all modules in it train."""
    if not _has_both(model):
        return []
    frozen = []
    for name, module in model.named_modules():
        is_within = any(name.startswith(f"{outer}.") for outer in frozen)
        if not is_within and not any(one.training for one in module.modules()):
            frozen.append(name)
    return frozen or [name or "the model itself" for name, module in model.named_modules() if not module.training]
