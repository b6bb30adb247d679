#!/usr/bin/env python3
"""Tests that ampd.export refuses models that no file can hold, and that it exports models with masks of several kinds
unchanged.

Usage: export_check_test.py. Needs no binaries.
"""
import datetime
import itertools
import pathlib
import random
import sys
import tempfile
import time
import unittest
import warnings
from time import perf_counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import numpy
import torch
from torch import nn
from torch.export.pt2_archive._package import load_pt2
from torch.utils.checkpoint import checkpoint

import ampd
from ampd.modes import frozen_modules

FEATURES = 6
num_calls = 0


class Net(nn.Module):
    """Two layers, with a function between them that the test is about."""

    def __init__(self, between=None):
        super().__init__()
        self.a, self.b = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, 3)
        self.between = between or (lambda net, h: h)

    def forward(self, x):
        return self.b(self.between(self, torch.tanh(self.a(x))))


def function(forward, backward):
    """Makes a torch.autograd.Function of a forward and a backward function."""
    return type("Own", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def swish(ctx, x):
    ctx.save_for_backward(x)
    return x * torch.sigmoid(x)


def swish_backward(ctx, gradient):
    x, = ctx.saved_tensors
    return gradient * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x)))


class WithContext(torch.autograd.Function):
    """A function in the form that saves tensors for the backward pass in a separate method."""

    @staticmethod
    def forward(x, scale):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale * 0.5, None


# Functions whose backward pass is not their derivative: always, for some sizes, or for some inputs.
FUNCTIONS = {
    "reversed": function(lambda ctx, x: x.view_as(x), lambda ctx, gradient: -gradient),
    "straight through": function(lambda ctx, x: torch.round(x), lambda ctx, gradient: gradient),
    "bounded": function(lambda ctx, x: x.clone(), lambda ctx, gradient: gradient.clamp(-1e4, 1e4)),
    "small ones dropped": function(lambda ctx, x: x.clone(), lambda ctx, gradient: gradient * (gradient.abs() > 1e-4)),
    "NaN replaced": function(lambda ctx, x: x.clone(), lambda ctx, gradient: torch.nan_to_num(gradient)),
    "beyond a bound": function(lambda ctx, x: x.clamp(-5, 5), lambda ctx, gradient: gradient),
}


class ExportCase(unittest.TestCase):
    def setUp(self):
        print(self.id(), flush=True)
        torch.manual_seed(0)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ampd-export-")))
        self.path = self.folder / "model.pt2"
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def export(self, model, inputs=None, **options):
        ampd.export(model, inputs or (torch.randn(4, FEATURES),), self.path, **options)
        return {name: program.module() for name, program in load_pt2(self.path).exported_programs.items()}

    def refused(self, model, *words, inputs=None):
        with self.assertRaises(ampd.ExportError) as raised:
            self.export(model, inputs)
        print(f"  {raised.exception}", flush=True)
        for word in words:
            self.assertIn(word, str(raised.exception))
        self.assertNotIn("\n", str(raised.exception))
        self.assertEqual(list(self.folder.iterdir()), [])


class BackwardCode(ExportCase):
    def test_functions_whose_backward_pass_is_not_their_derivative_are_named(self):
        for name, own in FUNCTIONS.items():
            with self.subTest(name):
                self.refused(Net(lambda net, h: own.apply(h)), "the model (Net) has the torch.autograd.Function 'Own'")
        kept = FUNCTIONS["reversed"].apply  # a module may call the function through a variable
        self.refused(Net(lambda net, h: kept(h)), "the torch.autograd.Function 'Own'")
        self.refused(Net(lambda net, h: WithContext.apply(h, 2.0)), "'WithContext'")

    def test_functions_within_modules_are_named_with_them(self):
        class Reversal(nn.Module):
            def forward(self, x):
                return FUNCTIONS["reversed"].apply(x)

        net = nn.Sequential(nn.Linear(FEATURES, 4), Reversal(), nn.Linear(4, 2))
        self.refused(net, "1 (Reversal) has the torch.autograd")

    def test_functions_that_dynamo_does_not_see_are_named(self):
        def own(h):
            return FUNCTIONS["reversed"].apply(h)

        self.refused(Net(lambda net, h: torch.compiler.disable(own)(h)), "'Own'")
        self.refused(Net(lambda net, h: torch.compile(own)(h)), "'Own'")

    def test_an_operator_with_a_backward_pass_of_its_own_is_named(self):
        @torch.library.custom_op("ampd_export_check::reverse", mutates_args=())
        def reverse(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        reverse.register_fake(torch.empty_like)
        reverse.register_autograd(lambda ctx, gradient: -gradient)
        self.refused(Net(lambda net, h: reverse(h)), "the operator 'ampd_export_check_reverse_default'")

    def test_a_function_whose_backward_pass_is_its_derivative_is_exported(self):
        own = function(swish, swish_backward)
        net = Net(lambda net, h: own.apply(h * 3))
        program = self.export(net)["train"]
        samples = torch.randn(5, FEATURES)
        program(samples).square().sum().backward()
        net.train()(samples).square().sum().backward()
        torch.testing.assert_close(program.get_parameter("a.weight").grad, net.a.weight.grad)

    def test_gradients_that_are_changed_by_detach_are_the_files_too(self):
        net = Net(lambda net, h: h.detach() * 2 - h)
        program = self.export(net)["train"]
        samples = torch.randn(5, FEATURES)
        program(samples).sum().backward()
        net.train()(samples).sum().backward()
        self.assertTrue(torch.equal(program.get_parameter("a.weight").grad, net.a.weight.grad))
        plain = Net()
        plain.load_state_dict(net.state_dict())
        plain(samples).sum().backward()
        torch.testing.assert_close(plain.a.weight.grad, -net.a.weight.grad)

    def test_checkpoints_are_taken_in_the_form_that_keeps_gradients(self):
        self.export(Net(lambda net, h: checkpoint(torch.sin, h, use_reentrant=False)))
        self.path.unlink()
        self.refused(Net(lambda net, h: checkpoint(torch.sin, h, use_reentrant=True)), "'CheckpointFunction'",
                     "use_reentrant=False")

    def test_hooks_on_modules_and_parameters_are_named(self):
        def on(register):
            net = Net()
            register(net)
            return net

        def halve(*gradients):
            return None

        for register, words in (
                (lambda net: net.a.register_full_backward_hook(halve), "a (Linear) has the backward hook"),
                (lambda net: net.b.register_full_backward_pre_hook(halve), "b (Linear) has the backward hook"),
                (lambda net: net.a.weight.register_hook(halve), "a.weight has the hook"),
                (lambda net: net.a.bias.register_post_accumulate_grad_hook(halve),
                 "a.bias has the hook of its accumulated gradient")):
            self.refused(on(register), words, "halve")
        handle = nn.modules.module.register_module_full_backward_hook(halve)
        self.addCleanup(handle.remove)
        self.refused(Net(), "for all modules", "halve")

    def test_hooks_that_the_forward_puts_on_tensors_are_named(self):
        def hooked(register):
            def between(net, h):
                if h.requires_grad:
                    register(h)
                return h

            return Net(between)

        def reverse(*gradients):
            return tuple(None if one is None else -one for one in gradients[0])

        self.refused(hooked(lambda h: h.register_hook(lambda gradient: -gradient)), "(Net) has a forward that puts")
        self.refused(hooked(lambda h: h.grad_fn.register_hook(reverse)), "register_hook")
        self.refused(hooked(lambda h: h.grad_fn.register_prehook(reverse)), "register_prehook")

    def test_a_gradient_that_something_else_changes_is_reported_with_its_place(self):
        net = Net()
        accumulates = net.a.weight.view_as(net.a.weight).grad_fn.next_functions[0][0]
        accumulates.register_prehook(lambda gradients: (-gradients[0],))
        self.refused(net, "the gradient of a.weight differs")

        def halved(net, h):
            with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved * 0.5, lambda saved: saved):
                return torch.tanh(h)

        self.refused(Net(halved), "the gradient of a.weight differs, first behind the output of a (Linear)")

    def test_forward_hooks_are_the_files_too(self):
        net = Net()
        net.a.register_forward_hook(lambda module, inputs, output: output * 2)
        net.b.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
        program = self.export(net)["eval"]
        samples = torch.randn(5, FEATURES)
        self.assertTrue(torch.equal(program(samples), net.eval()(samples)))


class PythonState(ExportCase):
    def test_what_the_forward_counts_is_named(self):
        def counted(net, h):
            net.calls = getattr(net, "calls", 0) + 1
            return h * net.calls

        def first_thousand(net, h):
            net.seen["steps"] = net.seen.get("steps", 0) + 1
            return h if net.seen["steps"] < 1000 else h * 2

        def in_the_file(net, h):
            global num_calls
            num_calls += 1
            return h if num_calls < 1000 else h * 2

        def of_an_iterator(net, h):
            return h if next(net.places) < 1000 else h * 2

        def of_a_list(net, h):
            net.history.append(1)
            return h if len(net.history) < 1000 else h * 2

        for between, name in ((counted, "calls"), (first_thousand, "seen.steps"), (in_the_file, "num_calls"),
                              (of_an_iterator, "places"), (of_a_list, "history")):
            net = Net(between)
            net.seen, net.places, net.history = {}, itertools.count(), []
            self.refused(net, f"{name} with each call")

    def test_draws_that_torch_does_not_make_are_named(self):
        self.refused(Net(lambda net, h: h * random.random()), "the model (Net)", "Python's random module")
        self.refused(Net(lambda net, h: h if not net.training or random.random() < 0.9 else h * 2), "Python's random module")
        self.refused(Net(lambda net, h: h * float(numpy.random.rand())), "NumPy's random module")
        for make, draw in ((random.Random, lambda own: own.random()),
                           (numpy.random.default_rng, lambda own: float(own.random())),
                           (torch.Generator, lambda own: torch.rand(1, generator=own))):
            net = Net(lambda net, h: h * draw(net.own))
            net.own = make()
            self.refused(net, "changes own with each call")

    def test_the_time_is_found(self):
        for tell in (lambda net: time.time(), lambda net: perf_counter(), lambda net: net.clock(),
                     lambda net: time.localtime().tm_yday, lambda net: datetime.datetime.now().hour + 1,
                     lambda net: datetime.date.today().year):
            net = Net(lambda net, h: h * float(tell(net)))
            net.clock = time.monotonic
            self.refused(net, "differs when the model is called again")

    def test_what_the_first_call_keeps_for_later_ones_is_found(self):
        def keep(make):
            def between(net, h):
                if getattr(net, "kept", None) is None:
                    net.kept = make(net, h)
                return h + net.kept

            return between

        self.refused(Net(keep(lambda net, h: h.detach().mean(0, keepdim=True))), "the training program",
                     "in the model (Net), before b (Linear)")
        self.refused(Net(keep(lambda net, h: net.a.weight.detach().sum())), "the training program")
        self.refused(Net(keep(lambda net, h: net.a.weight.square().sum())), "first call with them does not fail")
        self.export(Net(keep(lambda net, h: torch.arange(6.0))))

    def test_what_python_does_only_while_it_traces_is_found(self):
        def traced(net, h):
            return h * 2 if torch.compiler.is_compiling() else h

        self.refused(Net(traced), "output 0 differs, first in the model (Net), before b (Linear)")

    def test_a_model_is_afterwards_what_it_was(self):
        class Norm(Net):
            def __init__(self):
                super().__init__(lambda net, h: net.norm(h))
                self.norm = nn.BatchNorm1d(FEATURES)

            def forward(self, x):
                self.last = super().forward(x)
                return self.last

        net = Norm().eval()
        net.norm.train()
        state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        random_state = torch.get_rng_state()
        samples = torch.randn(4, FEATURES)
        torch.set_rng_state(random_state)
        self.export(net, (samples,))
        for name, tensor in net.state_dict().items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
        self.assertEqual((net.training, net.norm.training, hasattr(net, "last")), (False, True, False))
        self.assertTrue(all(parameter.grad is None for parameter in net.parameters()))
        self.assertTrue(torch.equal(torch.get_rng_state(), random_state))

    def test_dropout_and_norms_are_exported(self):
        net = Net(lambda net, h: nn.functional.dropout(net.norm(h), 0.5, net.training))
        net.norm = nn.BatchNorm1d(FEATURES)
        program = self.export(net)["train"]
        samples = torch.randn(5, FEATURES)
        torch.manual_seed(3)
        expected = net.train()(samples)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(program(samples), expected))

    def normed(self):
        """Returns a model of two norms and a dropout, of which the modules in `body` are one norm and the dropout."""
        net = Net(lambda net, h: net.last(net.body(h)))
        net.body = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Dropout(0.5))
        net.last = nn.BatchNorm1d(FEATURES)
        return net

    def test_modules_in_evaluation_mode_stay_so_in_the_training_program_of_a_model_in_both_modes(self):
        net = self.normed()
        net.body.eval()
        with self.assertWarnsRegex(UserWarning, "keeps in evaluation mode what is so in the given model: body; if it must"):
            programs = self.export(net)
        self.assertEqual((net.training, net.body.training, net.body[0].training, net.last.training), (True, False, False, True))
        samples = torch.randn(5, FEATURES)
        expected = net(samples)
        self.assertTrue(torch.equal(programs["train"](samples), expected))
        self.assertTrue(torch.equal(programs["train"](samples), expected), "no dropout")

    def test_a_model_in_one_mode_is_exported_in_both(self):
        for mode in (True, False):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                programs = self.export(self.normed().train(mode))
            self.assertEqual([str(one.message) for one in warned if "evaluation mode" in str(one.message)], [])
            samples = torch.randn(5, FEATURES)
            self.assertFalse(torch.equal(programs["train"](samples), programs["train"](samples)), "dropout")
            self.assertTrue(torch.equal(programs["eval"](samples), programs["eval"](samples)))

    def test_the_modules_in_evaluation_mode_are_named_by_the_outermost(self):
        net = self.normed()
        self.assertEqual(frozen_modules(net), [])
        net.body.eval()
        net.last.eval()
        self.assertEqual(frozen_modules(net), ["body", "last"])
        net.body[1].train()
        self.assertEqual(frozen_modules(net), ["body.0", "last"])
        net.train()
        net.training = False
        self.assertEqual(frozen_modules(net), ["the model itself"])


class Logits(nn.Module):
    def __init__(self, model, **arguments):
        super().__init__()
        self.model = model
        self.arguments = arguments

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, **self.arguments).logits


class MaskedLogits(Logits):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **self.arguments).logits


HEADS = dict(head_dim=8)
MIXED = dict(layer_types=["sliding_attention", "full_attention"])
# Models of transformers in which some layers attend to all earlier positions and some only to the last four.
# import_coverage_test.py has more.
MIXED_MASKS = {"Cohere2": MIXED, "Qwen3": HEADS | dict(use_sliding_window=True, max_window_layers=1)}


def language_model(name, besides):
    import transformers  # takes seconds

    config = getattr(transformers, {"Gemma3": "Gemma3Text"}.get(name, name) + "Config")
    return getattr(transformers, f"{name}ForCausalLM")(config(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, sliding_window=4, **besides))


class Masks(ExportCase):
    def expect_equal(self, net, programs, inputs):
        """Compares outputs and, in training, the gradient of every parameter."""
        with torch.no_grad():
            self.assertTrue(torch.equal(programs["eval"](*inputs), net.eval()(*inputs)))
        programs["train"](*inputs).sum().backward()
        net.train()(*inputs).sum().backward()
        given = dict(programs["train"].named_parameters())
        for name, parameter in net.named_parameters():
            if name != "model.model.embed_tokens.weight":  # tied: the file has this tensor twice
                torch.testing.assert_close(given[name].grad, parameter.grad, rtol=1e-4, atol=1e-5)

    def test_layers_with_other_masks_keep_their_own(self):
        for name, besides in MIXED_MASKS.items():
            with self.subTest(name):
                net = Logits(language_model(name, besides), use_cache=False)
                programs = self.export(net, (torch.randint(1, 50, (4, 8)),))
                self.expect_equal(net, programs, (torch.randint(1, 50, (5, 8)),))

    def test_layers_with_other_masks_and_padding(self):
        net = MaskedLogits(language_model("Gemma2", HEADS), use_cache=False)
        programs = self.export(net, (torch.randint(1, 50, (4, 8)), torch.ones(4, 8, dtype=torch.int64)))
        mask = (torch.arange(8) < torch.tensor([[8], [5], [3]])).long()
        self.expect_equal(net, programs, (torch.randint(1, 50, (3, 8)), mask))

    def test_gemma3_with_a_cache_in_evaluation_and_texts_of_any_length(self):
        net = Logits(language_model("Gemma3", HEADS | MIXED))
        length = torch.export.Dim("length", min=3, max=32)
        programs = self.export(net, (torch.randint(1, 50, (4, 8)),), dynamic=({1: length},))
        self.expect_equal(net, programs, (torch.randint(1, 50, (3, 13)),))

    def test_texts_that_are_packed_do_not_see_each_other(self):
        class Packed(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = language_model("Llama", {})

            def forward(self, input_ids, position_ids):
                return self.model(input_ids=input_ids, position_ids=position_ids, use_cache=False).logits

        net = Packed()
        places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 4, 5]])
        programs = self.export(net, (torch.randint(1, 50, (2, 8)), places))
        self.expect_equal(net, programs, (torch.randint(1, 50, (3, 8)), torch.tensor([[0, 1, 2, 0, 1, 2, 0, 1]] * 3)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
