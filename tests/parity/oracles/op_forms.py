"""Calls of every op of the engine's table.

FORMS maps each op to functions that return calls: one in its plainest form, and one for each form of its arguments that
may compute in other dtypes.
"""
import torch

BATCH, CHANNELS, SIZE = 2, 4, 4


class Slot:
    """A tensor argument of a case. "input" has any dtype; "parameter" and "buffer" belong to a layer, as a policy
    stores them."""

    def __init__(self, kind, tensor):
        self.kind, self.tensor = kind, tensor


def x(tensor):
    return Slot("input", tensor)


def p(tensor):
    return Slot("parameter", tensor)


def b(tensor):
    return Slot("buffer", tensor)


def call(*arguments, **named):
    return arguments, named


def real(*shape):
    return torch.rand(shape) * 0.5 + 0.25


def number():
    return real()


def labels():
    return torch.zeros(SIZE, dtype=torch.int64)


def ones():
    return torch.ones(CHANNELS)


def heads():
    """Queries, keys or values of attention. The values have both signs: a query's gradient sums differences between
    keys, and for nearly equal keys autocast's own gradient is off by 7%."""
    return torch.randn(BATCH, CHANNELS, SIZE, SIZE) * 2


def images():
    return real(BATCH, CHANNELS, SIZE, SIZE)


def square():
    return real(SIZE, SIZE)


def truths():
    return torch.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 2 == 0


def whole():
    return torch.arange(SIZE * SIZE).reshape(SIZE, SIZE)


def stack():
    return real(BATCH, SIZE, SIZE)


def recurrent(num_states, num_gates, layers=1, biases=True, bidirectional=False, batch_first=True):
    """Returns the arguments of recurrent layers over sequences of SIZE positions."""
    directions = 2 if bidirectional else 1
    batch = BATCH if batch_first else SIZE
    states = [x(real(layers * directions, batch, SIZE)) for _ in range(num_states)]
    parameters = []
    for layer in range(layers):
        width = SIZE if layer == 0 else SIZE * directions
        for _ in range(directions):
            rows = num_gates * SIZE
            parameters += [p(real(rows, width)), p(real(rows, SIZE))]
            parameters += [p(real(rows)), p(real(rows))] if biases else []
    return call(x(stack()), states if num_states > 1 else states[0], parameters, biases, layers, 0.0, True,
                bidirectional, batch_first)


# {op: a function that returns a call in the op's plainest form}.
PLAIN = {
    "aten.addmm.default": lambda: call(x(square()), x(square()), x(square())),
    "aten.bmm.default": lambda: call(x(stack()), x(stack())),
    "aten.conv2d.default": lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3))),
    "aten.convolution.default": lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3)), None, [1, 1], [0, 0], [1, 1],
                                           False, [0, 0], 1),
    "aten.linear.default": lambda: call(x(square()), x(square())),
    "aten.matmul.default": lambda: call(x(square()), x(square())),
    "aten.mm.default": lambda: call(x(square()), x(square())),
    "aten.scaled_dot_product_attention.default": lambda: call(x(heads()), x(heads()), x(heads())),
    "aten.cross_entropy_loss.default": lambda: call(x(square()), labels()),
    "aten.log_softmax.int": lambda: call(x(square()), 1),
    "aten.mean.default": lambda: call(x(square())),
    "aten.mean.dim": lambda: call(x(square()), [1]),
    "aten.huber_loss.default": lambda: call(x(square()), x(square())),
    "aten.mse_loss.default": lambda: call(x(square()), x(square())),
    "aten.smooth_l1_loss.default": lambda: call(x(square()), x(square())),
    "aten.nll_loss_nd.default": lambda: call(x(square()), labels()),
    "aten.softmax.int": lambda: call(x(square()), 1),
    "aten.sum.default": lambda: call(x(square())),
    "aten.sum.dim_IntList": lambda: call(x(square()), [1]),
    "aten.batch_norm.default": lambda: call(x(images()), p(ones()), p(ones()), b(ones()), b(ones()), True, 0.1, 1e-5, False),
    "aten.layer_norm.default": lambda: call(x(square()), [SIZE], p(ones()), p(ones())),
    "aten.add.Tensor": lambda: call(x(square()), x(square())),
    "aten.cat.default": lambda: call([x(square()), x(square())]),
    "aten.stack.default": lambda: call([x(square()), x(square())]),
    "aten.mul.Tensor": lambda: call(x(square()), x(square())),
    "aten.sub.Tensor": lambda: call(x(square()), x(square())),
    "aten.binary_cross_entropy.default": lambda: call(x(square()), x(square())),
    "aten.binary_cross_entropy_with_logits.default": lambda: call(x(square()), x(square())),
    "aten.adaptive_avg_pool2d.default": lambda: call(x(images()), [1, 1]),
    "aten.argmax.default": lambda: call(x(square()), 1),
    "aten.avg_pool2d.default": lambda: call(x(images()), [2, 2]),
    "aten.detach.default": lambda: call(x(square())),
    "aten.dropout.default": lambda: call(x(square()), 0.5, True),
    "aten.embedding.default": lambda: call(x(square()), labels()),
    "aten.eq.Tensor": lambda: call(x(square()), x(square())),
    "aten.feature_dropout.default": lambda: call(x(images()), 0.5, True),
    "aten.flatten.using_ints": lambda: call(x(square())),
    "aten.gelu.default": lambda: call(x(square())),
    "aten.max_pool2d.default": lambda: call(x(images()), [2, 2]),
    "aten.ones_like.default": lambda: call(x(square())),
    "aten.permute.default": lambda: call(x(square()), [1, 0]),
    "aten.relu.default": lambda: call(x(square())),
    "aten.reshape.default": lambda: call(x(square()), [SIZE * SIZE]),
    "aten.select.int": lambda: call(x(square()), 0, 1),
    "aten.sigmoid.default": lambda: call(x(square())),
    "aten.silu.default": lambda: call(x(square())),
    "aten.slice.Tensor": lambda: call(x(square()), 0, 0, 2),
    "aten.split.Tensor": lambda: call(x(square()), 2),
    "aten.squeeze.dim": lambda: call(x(real(SIZE, 1)), 1),
    "aten.tanh.default": lambda: call(x(square())),
    "aten.transpose.int": lambda: call(x(square()), 0, 1),
    "aten.unsqueeze.default": lambda: call(x(square()), 1),
    "aten.view.default": lambda: call(x(square()), [SIZE * SIZE]),
    "aten.zeros_like.default": lambda: call(x(square())),
    # Ops that only imported models have.
    "aten.clone.default": lambda: call(x(square())),
    "aten.contiguous.default": lambda: call(x(square())),
    "aten.cumsum.default": lambda: call(x(square()), 1),
    "aten.diagonal.default": lambda: call(x(square())),
    "aten.diff.default": lambda: call(x(square())),
    "aten.div.Tensor": lambda: call(x(square()), x(square())),
    "aten.elu.default": lambda: call(x(square())),
    "aten.expand.default": lambda: call(x(square()), [2, SIZE, SIZE]),
    "aten.group_norm.default": lambda: call(x(images()), 2, p(ones()), p(ones())),
    "aten.hardsigmoid.default": lambda: call(x(square())),
    "aten.hardswish.default": lambda: call(x(square())),
    "aten.hardtanh.default": lambda: call(x(square())),
    "aten.le.Tensor": lambda: call(x(square()), x(square())),
    "aten.leaky_relu.default": lambda: call(x(square())),
    "aten.masked_fill.Scalar": lambda: call(x(square()), truths(), 0.0),
    "aten.narrow.default": lambda: call(x(square()), 1, 1, 2),
    "aten.ne.Scalar": lambda: call(x(square()), 0),
    "aten.neg.default": lambda: call(x(square())),
    "aten.pow.Tensor_Scalar": lambda: call(x(square()), 3.0),
    "aten.rsqrt.default": lambda: call(x(square())),
    "aten.unflatten.int": lambda: call(x(square()), 1, [2, SIZE // 2]),
    "aten.abs.default": lambda: call(x(square())),
    "aten.arange.default": lambda: call(SIZE),
    "aten.arange.start": lambda: call(1, SIZE),
    "aten.bernoulli.p": lambda: call(x(square()), 0.5),
    "aten.chunk.default": lambda: call(x(square()), 2),
    "aten.cos.default": lambda: call(x(square())),
    "aten.empty.memory_format": lambda: call([SIZE]),
    "aten.eq.Scalar": lambda: call(x(square()), 0),
    "aten.fill.Tensor": lambda: call(x(square()), x(number())),
    "aten.full_like.default": lambda: call(x(square()), 2.0),
    "aten.gt.Scalar": lambda: call(x(square()), 0),
    "aten.log.default": lambda: call(x(square())),
    "aten.lt.Scalar": lambda: call(x(square()), 0),
    "aten.index.Tensor": lambda: call(x(square()), [labels()]),
    "aten.min.other": lambda: call(x(square()), x(square())),
    "aten.new_zeros.default": lambda: call(x(square()), [SIZE]),
    "aten.ones.default": lambda: call([SIZE]),
    "aten.pad.default": lambda: call(x(square()), [0, 1]),
    "aten.roll.default": lambda: call(x(square()), [1], [1]),
    "aten.select_scatter.default": lambda: call(x(square()), x(real(SIZE)), 0, 1),
    "aten.sin.default": lambda: call(x(square())),
    "aten.slice_scatter.default": lambda: call(x(square()), x(real(1, SIZE)), 0, 1, 2),
    "aten.where.self": lambda: call(truths(), x(square()), x(square())),
    "aten.zeros.default": lambda: call([SIZE]),
    "aten.baddbmm.default": lambda: call(x(stack()), x(stack()), x(stack())),
    "aten.bitwise_not.default": lambda: call(truths()),
    "aten.clamp.default": lambda: call(x(square()), 0.0, 0.5),
    "aten.clamp_min.default": lambda: call(x(square()), 0.0),
    "aten.copy.default": lambda: call(x(square()), x(square())),
    "aten.einsum.default": lambda: call("ij,jk->ik", [x(square()), x(square())]),
    "aten.exp.default": lambda: call(x(square())),
    "aten.expand_as.default": lambda: call(x(square()), stack()),
    "aten.full.default": lambda: call([SIZE], 2.0),
    "aten.gt.Tensor": lambda: call(x(square()), x(square())),
    "aten.le.Scalar": lambda: call(x(square()), 0),
    "aten.linalg_vector_norm.default": lambda: call(x(square()), 2, [1]),
    "aten.logical_not.default": lambda: call(x(square())),
    "aten.numpy_T.default": lambda: call(x(square())),
    "aten.pow.Tensor_Tensor": lambda: call(x(square()), x(square())),
    "aten.repeat.default": lambda: call(x(square()), [2, 1]),
    "aten.rsub.Scalar": lambda: call(x(square()), 1.0),
    "aten.sqrt.default": lambda: call(x(square())),
    "aten.swapaxes.default": lambda: call(x(square()), 0, 1),
    "aten.triu.default": lambda: call(x(square())),
    "aten.unbind.int": lambda: call(x(square()), 0),
    "aten.zero.default": lambda: call(x(square())),
    "aten.conv_transpose2d.input": lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3))),
    # Ops on sequences.
    "aten.gather.default": lambda: call(x(square()), 1, torch.zeros(SIZE, 1, dtype=torch.int64)),
    "aten.gru.input": lambda: recurrent(1, 3),
    "aten.lstm.input": lambda: recurrent(2, 4),
}


FLOAT = torch.float32

# {op: functions that return calls in further forms of its arguments}.
MORE = {
    "aten.addmm.default": [lambda: call(x(square()), x(square()), x(square()), beta=0.5, alpha=2.0),
                           lambda: call(x(real(SIZE)), x(square()), x(square()))],
    "aten.add.Tensor": [lambda: call(x(square()), x(square()), alpha=2), lambda: call(x(square()), x(number())),
                        lambda: call(x(number()), x(square())), lambda: call(x(square()), whole()),
                        lambda: call(x(square()), x(real(SIZE)))],
    "aten.baddbmm.default": [lambda: call(x(stack()), x(stack()), x(stack()), beta=0.5, alpha=2.0)],
    "aten.batch_norm.default": [
        lambda: call(x(images()), p(ones()), p(ones()), b(ones()), b(ones()), False, 0.1, 1e-5, False),
        lambda: call(x(images()), None, None, b(ones()), b(ones()), True, 0.1, 1e-5, False),
        lambda: call(x(images()), p(ones()), p(ones()), None, None, True, 0.1, 1e-5, False)],
    "aten.binary_cross_entropy.default": [lambda: call(x(square()), x(square()), b(square()), 0)],
    "aten.binary_cross_entropy_with_logits.default": [
        lambda: call(x(square()), x(square()), b(square()), b(real(SIZE)), 2),
        lambda: call(x(square()), x(square()), None, None, 0)],
    "aten.cat.default": [lambda: call([x(square()), x(square()), x(square())], 1), lambda: call([x(square()), whole()])],
    "aten.clamp.default": [lambda: call(x(square()), 0.4), lambda: call(x(square()), max=0.6)],
    "aten.conv2d.default": [
        lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3)), x(real(CHANNELS)), [2, 2], [1, 1]),
        lambda: call(x(images()), x(real(CHANNELS, 1, 3, 3)), None, [1, 1], [0, 0], [1, 1], CHANNELS)],
    "aten.convolution.default": [
        lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3)), x(real(CHANNELS)), [1, 1], [0, 0], [1, 1], True,
                     [0, 0], 1),
        lambda: call(x(stack()), x(real(3, SIZE, 3)), None, [1], [0], [1], False, [0], 1)],
    "aten.conv_transpose2d.input": [
        lambda: call(x(images()), x(real(CHANNELS, CHANNELS, 3, 3)), x(real(CHANNELS)), [2, 2], [1, 1])],
    "aten.copy.default": [lambda: call(x(square()), x(real(SIZE))), lambda: call(x(square()), x(number())),
                          lambda: call(x(square()), whole())],
    "aten.cross_entropy_loss.default": [
        lambda: call(x(square()), x(square())), lambda: call(x(square()), labels(), b(ones())),
        lambda: call(x(square()), labels(), None, 0), lambda: call(x(square()), labels(), None, 1, -100, 0.1)],
    "aten.cumsum.default": [lambda: call(x(square()), 0, dtype=FLOAT), lambda: call(whole(), 0)],
    "aten.diff.default": [lambda: call(x(square()), 1, 0, None, x(real(1, SIZE))),
                          lambda: call(x(square()), 1, 0, x(real(1, SIZE))),
                          lambda: call(x(square()), 2, 1, x(real(SIZE, 1)), x(real(SIZE, 1)))],
    "aten.div.Tensor": [lambda: call(x(square()), x(number())), lambda: call(x(number()), x(square())),
                        lambda: call(x(square()), whole() + 1)],
    "aten.dropout.default": [lambda: call(x(square()), 0.5, False)],
    "aten.einsum.default": [
        lambda: call("i,j->ij", [x(real(SIZE)), x(real(3))]), lambda: call("btc,c->btc", [x(stack()), x(real(SIZE))]),
        lambda: call("ij->ji", [x(square())]), lambda: call("ij->i", [x(square())]), lambda: call("ij->", [x(square())]),
        lambda: call("ii->i", [x(square())]), lambda: call("ii", [x(square())]), lambda: call("bii->bi", [x(stack())]),
        lambda: call("i,i->", [x(real(SIZE)), x(real(SIZE))]), lambda: call("ij,ij->", [x(square()), x(square())]),
        lambda: call("ij,ij->i", [x(square()), x(square())]), lambda: call("ij,jk->i", [x(square()), x(square())]),
        lambda: call("ij,k->ik", [x(square()), x(real(3))]), lambda: call("ij,kj->k", [x(real(3, 1)), x(real(5, 1))]),
        lambda: call("bij,bjk->bik", [x(stack()), x(stack())]), lambda: call("...ij,jk", [x(stack()), x(square())]),
        lambda: call("...d, d -> ...d", [x(stack()), x(real(SIZE))]), lambda: call(",ij->ij", [x(number()), x(square())]),
        lambda: call("bhqd,bhkd->bhqk", [x(images()), x(images())]), lambda: call("ij,ij->ij", [x(square()), x(square())]),
        lambda: call("bi,bj,bk->bijk", [x(real(2, 3)), x(real(2, 4)), x(real(2, 5))]),
        lambda: call("i,ij,j->", [x(real(SIZE)), x(square()), x(real(SIZE))]),
        lambda: call("ij,jk,kl->il", [x(square()), x(square()), x(square())], path=[1, 2, 0, 1]),
        lambda: call("ij,ij,ij->ij", [x(square()), x(square()), x(square())]), lambda: call("ij->j", [whole()])],
    "aten.embedding.default": [lambda: call(x(square()), labels(), 0)],
    "aten.eq.Tensor": [lambda: call(x(square()), x(number())), lambda: call(x(square()), whole())],
    "aten.full_like.default": [lambda: call(x(square()), 2.0, dtype=FLOAT)],
    "aten.gelu.default": [lambda: call(x(square()), approximate="tanh")],
    "aten.group_norm.default": [lambda: call(x(images()), 2)],
    "aten.gru.input": [lambda: recurrent(1, 3, layers=2, bidirectional=True),
                       lambda: recurrent(1, 3, biases=False, batch_first=False)],
    "aten.huber_loss.default": [lambda: call(x(square()), x(square()), 0, 0.5)],
    "aten.index.Tensor": [lambda: call(x(square()), [None, labels()]), lambda: call(x(square()), [labels(), labels()])],
    "aten.layer_norm.default": [lambda: call(x(square()), [SIZE]), lambda: call(x(square()), [SIZE], p(ones()))],
    "aten.linalg_vector_norm.default": [
        lambda: call(x(square())), lambda: call(x(square()), float("inf"), [1]),
        lambda: call(x(square()), 2, [1], True, dtype=FLOAT)],
    "aten.linear.default": [lambda: call(x(square()), x(square()), x(real(SIZE))), lambda: call(x(real(SIZE)), x(square())),
                            lambda: call(x(stack()), x(square()), x(real(SIZE)))],
    "aten.log_softmax.int": [lambda: call(x(square()), 1, dtype=FLOAT)],
    "aten.lstm.input": [lambda: recurrent(2, 4, layers=2, bidirectional=True),
                        lambda: recurrent(2, 4, biases=False, batch_first=False)],
    "aten.matmul.default": [lambda: call(x(real(SIZE)), x(real(SIZE))), lambda: call(x(square()), x(real(SIZE))),
                            lambda: call(x(real(SIZE)), x(square())), lambda: call(x(stack()), x(square())),
                            lambda: call(x(images()), x(images()))],
    "aten.mean.default": [lambda: call(x(square()), dtype=FLOAT)],
    "aten.mean.dim": [lambda: call(x(square()), [1], True, dtype=FLOAT)],
    "aten.min.other": [lambda: call(x(square()), x(number()))],
    "aten.mse_loss.default": [lambda: call(x(square()), x(square()), 0)],
    "aten.mul.Tensor": [lambda: call(x(square()), x(number())), lambda: call(x(number()), x(square())),
                        lambda: call(x(square()), whole()), lambda: call(x(square()), truths()),
                        lambda: call(x(real(SIZE, 1)), x(real(1, SIZE)))],
    "aten.nll_loss_nd.default": [lambda: call(x(square()), labels(), b(ones()))],
    "aten.pad.default": [lambda: call(x(square()), [1, 1], "constant", 2.0), lambda: call(x(stack()), [1, 1], "reflect"),
                         lambda: call(x(images()), [1, 1, 1, 1], "reflect"), lambda: call(x(stack()), [1, 1], "replicate"),
                         lambda: call(x(images()), [1, 1, 1, 1], "replicate"),
                         lambda: call(x(real(1, *images().shape)), [1] * 6, "reflect"),
                         lambda: call(x(real(1, *images().shape)), [1] * 6, "replicate"),
                         lambda: call(x(stack()), [1, 1], "circular")],
    "aten.pow.Tensor_Scalar": [lambda: call(x(square()), 2), lambda: call(x(square()), -0.5)],
    "aten.pow.Tensor_Tensor": [lambda: call(x(square()), x(number())), lambda: call(x(number()), x(square())),
                               lambda: call(x(square()), x(real(SIZE))), lambda: call(x(square()), whole())],
    "aten.scaled_dot_product_attention.default": [
        lambda: call(x(heads()), x(heads()), x(heads()), x(square())),
        lambda: call(x(heads()), x(heads()), x(heads()), truths()),
        lambda: call(x(heads()), x(heads()), x(heads()), None, 0.0, True),
        lambda: call(x(heads()), x(heads()), x(heads()), scale=0.5), lambda: call(x(stack() * 4 - 2), x(stack() * 4 - 2), x(stack() * 4 - 2))],
    "aten.smooth_l1_loss.default": [lambda: call(x(square()), x(square()), 0, 0.5)],
    "aten.softmax.int": [lambda: call(x(square()), 1, dtype=FLOAT)],
    "aten.sub.Tensor": [lambda: call(x(square()), x(square()), alpha=2), lambda: call(x(number()), x(square()))],
    "aten.sum.default": [lambda: call(x(square()), dtype=FLOAT), lambda: call(whole())],
    "aten.sum.dim_IntList": [lambda: call(x(square()), [1], True), lambda: call(x(square()), [1], dtype=FLOAT)],
    "aten.where.self": [lambda: call(truths(), x(square()), x(number())), lambda: call(truths(), x(square()), whole())],
    "aten.zeros_like.default": [lambda: call(x(square()), dtype=FLOAT)],
}

FORMS = {op: [plain, *MORE.get(op, [])] for op, plain in PLAIN.items()}


def slots_of(arguments, named):
    """Returns all tensors of a call in order. Tensors whose dtype no policy changes are constants."""
    found = []

    def visit(argument):
        if isinstance(argument, (list, tuple)):
            for entry in argument:
                visit(entry)
        elif isinstance(argument, torch.Tensor):
            found.append(Slot("constant", argument))
        elif isinstance(argument, Slot):
            found.append(argument)

    visit(arguments)
    visit(list(named.values()))
    return found


def filled(arguments, named, tensors):
    """Returns the call with its slots replaced by `tensors`, in the order of slots_of()."""
    rest = iter(tensors)

    def fill(argument):
        if isinstance(argument, (list, tuple)):
            return type(argument)(fill(entry) for entry in argument)
        return next(rest) if isinstance(argument, (torch.Tensor, Slot)) else argument

    return fill(arguments), {name: fill(argument) for name, argument in named.items()}


def dtypes_of(slots, low):
    """Yields assignments of dtypes to a case's inputs: all float32, all `low` and, if there are several inputs, the
    first in one of the two and the rest in the other."""
    inputs = [i for i, slot in enumerate(slots) if slot.kind == "input"]
    ways = [(torch.float32, torch.float32)] + ([(low, low)] if inputs else [])
    ways += [(low, torch.float32), (torch.float32, low)] if len(inputs) > 1 else []
    for first, others in ways:
        yield [(first if i == inputs[0] else others) if slot.kind == "input" else slot.tensor.dtype
               for i, slot in enumerate(slots)]


def cases(low):
    """Yields (op, arguments, named, slots, dtypes) for each form and assignment of dtypes."""
    for op, forms in FORMS.items():
        for make in forms:
            arguments, named = make()
            slots = slots_of(arguments, named)
            for dtypes in dtypes_of(slots, low):
                yield op, arguments, named, slots, dtypes
