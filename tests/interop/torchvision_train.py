"""Runs torchvision's own train.py (references/classification), unchanged, on given samples and weights.

    torchvision_train.py FOLDER SAMPLES WEIGHTS STEPS FLAGS…

Its parser, model, criterion, optimizer, schedules and loop are those of the script in FOLDER. Only what it reads is
replaced: tensors in their order in place of photographs, and weights in place of random ones. It evaluates and
saves nothing, and ends after STEPS steps. Prints a line of JSON for each: its rate and its loss.
"""

import json
import sys

import torch
import torchvision
from safetensors.torch import load_file

folder, samples, weights, steps, *flags = sys.argv[1:]
sys.path.insert(0, folder)

import train
import utils

torch.set_num_threads(1)
tensors = load_file(samples)
data_set = torch.utils.data.TensorDataset(tensors["images"], tensors["labels"])
data_set.classes = range(int(tensors["labels"].max()) + 1)
make_model = torchvision.models.get_model


def model_with_weights(*given, **named):
    model = make_model(*given, **named)
    model.load_state_dict(load_file(weights))
    return model


class Meters(utils.MetricLogger):
    """The script gives each step's loss and rate to its meters."""

    left = int(steps)

    def update(self, **values):
        super().update(**values)
        print(json.dumps(values))
        Meters.left -= 1
        if Meters.left == 0:
            sys.exit()


in_order = torch.utils.data.SequentialSampler(data_set)
train.load_data = lambda *_: (data_set, data_set, in_order, in_order)
train.evaluate = lambda *_, **__: None
torchvision.models.get_model = model_with_weights
utils.MetricLogger = Meters
arguments = train.get_args_parser().parse_args(flags)
arguments.output_dir = ""
train.main(arguments)
