"""Commands of timm's and torchvision's train.py, pasted: their steps are those of the originals' own optimizers and
schedulers, with their defaults where the command is silent."""

import json
import math
import os
import sys

import pytest

from beside_torch import FACTOR, TIMM, allowed_ratio, in_both_ways, timm, torch, torchvision

import timm.data
import timm.loss
import timm.optim
import timm.scheduler
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import ROOT, metrics, run
from gentle_training import BATCH, CLASSES, SAMPLES, data, loaded, resnet18, samples  # noqa: F401
from truth import record, worst_ratio

STEPS_OF_EPOCH = SAMPLES // BATCH
LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"
STEPS = 10  # into the second epoch; the rates of whole runs are below
AS_IT_IS = ("--augment=none", "--color-jitter", "0")  # tensors, which timm does not read

torch.set_num_threads(1)


def pasted(*flags, weights, run_dir, steps=STEPS):
    """Runs the command on the samples in their order. Returns the rates and losses of its steps."""
    run(*flags, f"--init_weights={weights}", "--shuffle=none", f"--limit_train_steps={steps}", "--log-interval=1",
        "--save_every_epochs=0", "--eval_every_epochs=0", f"--run_dir={run_dir}")
    points = metrics(run_dir, "train")
    return [point["lr"] for point in points], [point["loss"] for point in points]


def original(model, optimizer, next_epoch, criterion, samples, memory_format):
    """Returns the rates and losses of the loop that both scripts have; `next_epoch` steps the scheduler."""
    model.train()
    images = samples[0].to(memory_format=memory_format)
    rates, losses = [], []
    for step in range(STEPS):
        if step > 0 and step % STEPS_OF_EPOCH == 0:
            next_epoch(step // STEPS_OF_EPOCH)
        place = step % STEPS_OF_EPOCH * BATCH
        optimizer.zero_grad()
        loss = criterion(model(images[place:place + BATCH]), samples[1][place:place + BATCH])
        loss.backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(loss.item())
    return rates, losses


@pytest.mark.parametrize("opt, rate, decay, flags", [
    ("sgd", 0.05 * BATCH / 256, 1, ("--lr=0", "--lr-base=0.05")), ("lamb", 1e-3, 0, ("--lr=1e-3", "--clip-grad=5")),
    ("nlars", 1e-3, 0, ("--lr=1e-3",))])
def test_timm(data, samples, resnet18, run_dir, opt, rate, decay, flags):
    """With a rate and without: timm then derives it from the batch. A sum that another CPU rounds otherwise may flip a ReLU,
    which moves later losses by 2e-4; a missing weight decay of 1 does by 1e-2. LAMB clips at 1 whatever --clip-grad says, and
    neither LAMB nor LARS adapts layers that do not decay."""
    found = pasted(data, "--model", "resnet18", "--opt", opt, "--sched", "cosine", "--epochs", "20", "--warmup-epochs", "2",
                   "-b", str(BATCH), "--weight-decay", str(decay), *AS_IT_IS, "--pin-mem", *flags, weights=resnet18, run_dir=run_dir)

    def trained(memory_format):
        model = timm.create_model("resnet18", num_classes=CLASSES)
        model.load_state_dict(load_file(resnet18))
        optimizer = timm.optim.create_optimizer_v2(model, opt=opt, lr=rate, weight_decay=decay, momentum=0.9)
        scheduler, _ = timm.scheduler.create_scheduler_v2(optimizer, sched="cosine", num_epochs=20, warmup_epochs=2,
                                                          warmup_lr=1e-5)
        return original(model, optimizer, scheduler.step, timm.loss.LabelSmoothingCrossEntropy(0.1), samples, memory_format)

    compare(found, in_both_ways(trained), f"timm's {opt} from a pasted command", TIMM, least=1e-3)


@pytest.fixture(scope="module")
def efficientnet(module_dir):
    """A file of weights without dropout, whose residual branches contribute little."""
    torch.manual_seed(0)
    model = timm.create_model("efficientnet_b0", num_classes=CLASSES)
    for name, module in model.named_modules():
        if name.endswith((".bn3", "blocks.0.0.bn2")):
            module.weight.data *= 0.05
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, module_dir / "efficientnet_b0.safetensors")
    return module_dir / "efficientnet_b0.safetensors"


# "EfficientNet-B0 with RandAugment" of timm's page, but for its size and what is drawn: dropout, augmentation, half precision.
OF_ITS_PAGE = ("--sched step --epochs 450 --decay-epochs 2.4 --decay-rate .97 --opt rmsproptf --opt-eps .001 -j 8 --warmup-lr 1e-6 "
               "--weight-decay 1e-5 --drop 0.0 --drop-path 0.0 --model-ema --model-ema-decay 0.9999 --remode pixel").split()


def test_timms_page(data, samples, efficientnet, run_dir):
    command = ["--data-dir", data, "--model", "efficientnet_b0", "-b", BATCH, *OF_ITS_PAGE, "--lr", "1e-4", *AS_IT_IS]
    found = pasted(*command, weights=efficientnet, run_dir=run_dir)

    def schedule_of(optimizer):
        return timm.scheduler.create_scheduler_v2(optimizer, sched="step", num_epochs=450, decay_epochs=2.4, decay_rate=0.97,
                                                  warmup_epochs=5, warmup_lr=1e-6)[0]

    def trained(memory_format):
        model = timm.create_model("efficientnet_b0", num_classes=CLASSES)
        model.load_state_dict(load_file(efficientnet))
        optimizer = timm.optim.create_optimizer_v2(model, opt="rmsproptf", lr=1e-4, weight_decay=1e-5, momentum=0.9, eps=0.001)
        return original(model, optimizer, schedule_of(optimizer).step, timm.loss.LabelSmoothingCrossEntropy(0.1), samples, memory_format)

    compare(found, in_both_ways(trained), "timm's page, EfficientNet-B0", TIMM, least=1e-3)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-4)
    scheduler, of_epoch = schedule_of(optimizer), []
    for epoch in range(450):
        scheduler.step(epoch)
        of_epoch.append(optimizer.param_groups[0]["lr"])
    plan = json.loads(run(*command, "--dry_run", "--log_format=json").last_line)["learning_rates"]
    assert [rate for _, rate in plan] == pytest.approx([of_epoch[step // STEPS_OF_EPOCH] for step, _ in plan], rel=1e-9)
    assert len(plan) > 100


def test_timms_images_without_augmentation(resnet18, run_dir, tmp_path):
    """A loss of photographs that are not square: training sees their whole middle square, evaluation less of it."""
    generator = torch.Generator().manual_seed(3)
    for label in range(CLASSES):
        pixels = torch.rand(1, 3, 5, 6, generator=generator)
        pixels = F.interpolate(pixels, size=(80, 96), mode="bicubic").clamp(0, 1)[0]
        for split in ("train", "validation"):
            (tmp_path / split / str(label)).mkdir(parents=True)
            torchvision.utils.save_image(pixels, tmp_path / split / str(label) / "photo.png")
    run("--data-dir", tmp_path, "--model", "resnet18", "--img-size", "64", "-b", str(CLASSES), "--epochs=1", "--warmup-epochs=0", "--no-aug",
        "--hflip=0.5", f"--init_weights={resnet18}", f"--run_dir={run_dir}")
    transform = timm.data.create_transform(64, is_training=True, no_aug=True, interpolation="bicubic")
    photos = torchvision.datasets.ImageFolder(tmp_path / "train", transform)
    model = loaded(resnet18)
    loss = timm.loss.LabelSmoothingCrossEntropy(0.1)(model(torch.stack([photo for photo, _ in photos])), torch.arange(CLASSES)).item()
    assert metrics(run_dir, "train")[0]["loss"] == pytest.approx(loss, rel=1e-3)
    record("Pasted commands", "timm's --no-aug, a loss of photographs", TIMM, "1e-3 of the loss",
           abs(metrics(run_dir, "train")[0]["loss"] - loss) / loss)


def test_timms_average(data, samples, resnet18, run_dir):
    """The average of all updates, of which the first six are its warmup. timm's counts everything that a checkpoint of the
    model has, statistics, too."""
    pasted(data, "--model", "resnet18", "--opt", "sgd", "--lr=2e-4", "--warmup-epochs=0", "-b", str(BATCH), *AS_IT_IS, "--model-ema",
           "--model-ema-decay=0.7", "--model-ema-warmup", weights=resnet18, run_dir=run_dir)
    first = load_file(resnet18)
    model = timm.create_model("resnet18", num_classes=CLASSES)
    model.load_state_dict(first)
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=2e-4, weight_decay=2e-5, momentum=0.9)
    scheduler, _ = timm.scheduler.create_scheduler_v2(optimizer, sched="cosine", num_epochs=300)
    average = timm.utils.ModelEmaV3(model, decay=0.7, use_warmup=True)
    step = iter(range(1, STEPS + 1))
    optimizer.register_step_post_hook(lambda *_: average.update(model, step=next(step)))
    original(model, optimizer, scheduler.step, timm.loss.LabelSmoothingCrossEntropy(0.1), samples, torch.channels_last)
    theirs, ours, last = average.module.state_dict(), load_file(run_dir / "model_ema.safetensors"), model.state_dict()
    names = [name for name, tensor in theirs.items() if tensor.is_floating_point()]

    def distance(a, b):
        return sum(((a[name] - b[name]).double() ** 2).sum() for name in names).sqrt().item()

    assert distance(ours, theirs) <= 1e-3 * distance(theirs, last) and distance(theirs, last) > 0
    record("Pasted commands", f"timm's --model-ema --model-ema-warmup, {STEPS} steps", TIMM, "1e-3 of its distance to the weights",
           distance(ours, theirs) / distance(theirs, last))


# torchvision's scripts are in no package of Python's; the distribution's source of torchvision has them. timm's train.py
# is in neither, so that test_timm has its loop and takes the rest from timm.
SCRIPTS = ROOT / ".venv" / "torchvision_scripts"
OF_TORCHVISION = {
    "sgd": "--opt sgd_nesterov --lr 5e-4 --wd 0.05 --norm-weight-decay 0 --bias-weight-decay 0 --label-smoothing 0.1 "
           "--lr-scheduler cosineannealinglr --lr-warmup-epochs 2 --lr-warmup-method linear --lr-min 1e-5 --clip-grad-norm 1",
    "adamw": "--opt adamw --lr 5e-5 --wd 0.1 --lr-step-size 1 --lr-gamma 0.5",
    "IMAGENET1K_V2": "--lr=5e-4 --lr-scheduler=cosineannealinglr --lr-warmup-epochs=5 --lr-warmup-method=linear --weight-decay=0.00002 "
                     "--norm-weight-decay=0.0 --label-smoothing=0.1 --model-ema"}


@pytest.mark.skipif(not (SCRIPTS / "train.py").exists(), reason="scripts/setup.sh --tests gets torchvision's train.py")
@pytest.mark.parametrize("name", [name for name in OF_TORCHVISION if LONG or name != "IMAGENET1K_V2"])  # of parts of "sgd"
def test_torchvisions_own_train_py(data, resnet18, run_dir, name):
    """The same line for both programs, but for what names the samples and the weights. Into the third epoch, behind the
    warmup."""
    steps = 2 * STEPS_OF_EPOCH + 1
    line = ["--model", "resnet18", "-b", str(BATCH), "--epochs", "20", "--device", "cpu", "--workers", "0", *OF_TORCHVISION[name].split()]
    rates, losses = pasted("--data-path", data, *line, weights=resnet18, run_dir=run_dir, steps=steps)
    printed = run(ROOT / "tests/interop/torchvision_train.py", SCRIPTS, data / "train.safetensors", resnet18, steps, *line,
                  program=sys.executable, timeout=300).lines
    expected = [json.loads(text) for text in printed if text.startswith("{")]
    assert rates == pytest.approx([step["lr"] for step in expected], rel=1e-6)
    assert losses == pytest.approx([step["loss"] for step in expected], rel=1e-3)
    record("Pasted commands", f"torchvision's train.py, {name}, {steps} steps", f"train.py with torch {torch.__version__}",
           "1e-3 of the loss", worst_ratio(losses, [step["loss"] for step in expected]))


def compare(found, both, name, reference, least=1e-4):
    expected, other = both
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found[1] == pytest.approx(expected[1], rel=allowed_ratio(expected[1], other[1], least))
    assert len(set(found[0])) == 2  # one for each epoch
    record("Pasted commands", f"{name}, {STEPS} steps", reference, f"{least:.0e}".replace("e-0", "e-") + f" of the loss or {FACTOR} times its own spread",
           worst_ratio(found[1], expected[1]))


# ---- Rates of whole runs ---------------------------------------------------------------------------------------------

EPOCHS = 6
SCHEDULES = {
    "cosine": (["--sched", "cosine", "--min-lr", "1e-3"], {"sched": "cosine", "min_lr": 1e-3}),
    "cosine after its warmup": (["--sched", "cosine", "--warmup-prefix"], {"sched": "cosine", "warmup_prefix": True}),
    "step": (["--sched", "step", "--decay-epochs", "2.4", "--decay-rate", ".9"],
             {"sched": "step", "decay_epochs": 2.4, "decay_rate": 0.9}),
    "multistep": (["--sched", "multistep", "--decay-milestones", "4", "6"],
                  {"sched": "multistep", "decay_milestones": [4, 6]}),
    "poly": (["--sched", "poly", "--dr", "0.9"], {"sched": "poly", "decay_rate": 0.9}),
    "each update": (["--sched", "cosine", "--sched-on-updates"], {"sched": "cosine", "step_on_epochs": False}),
}


def rates_of(data, *flags) -> list[float]:
    plan = run("--dry_run", "--log_format=json", *flags, f"-b={BATCH}", "--model=resnet18", f"--epochs={EPOCHS}")
    return [rate for _, rate in json.loads(plan.last_line)["learning_rates"]]


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_of_timm(data, name):
    flags, reference = SCHEDULES[name]
    found = rates_of(data, data, "--lr=0.4", "--warmup-epochs=2", *AS_IT_IS, *flags)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler, epochs = timm.scheduler.create_scheduler_v2(optimizer, num_epochs=EPOCHS, warmup_epochs=2, warmup_lr=1e-5,
                                                           updates_per_epoch=STEPS_OF_EPOCH, **reference)
    expected = []
    for step in range(epochs * STEPS_OF_EPOCH):
        if step % STEPS_OF_EPOCH == 0:
            scheduler.step(step // STEPS_OF_EPOCH)
        scheduler.step_update(step)
        expected.append(optimizer.param_groups[0]["lr"])
    assert found == pytest.approx(expected, rel=1e-9)
    record("Pasted commands", f"timm's schedule {name}", TIMM, "1e-9 of the rate",
           worst_ratio(found, expected))


def test_torchvisions_rates_end_with_its_epochs(data):
    """Where an epoch has no whole number of steps (6.4 here), its rate is that of the epoch's number all the same. Other schedules
    are those of its own train.py, above."""
    plan = run("--dry_run", "--log_format=json", "--data-path", data, "-b=10", "--model=resnet18", f"--epochs={EPOCHS}", "--lr-warmup-epochs=2",
               "--lr-warmup-method=linear", "--lr-scheduler=cosineannealinglr")
    schedules, optimizer = torch.optim.lr_scheduler, torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = schedules.SequentialLR(optimizer, [schedules.LinearLR(optimizer, start_factor=0.01, total_iters=2),
                                                   schedules.CosineAnnealingLR(optimizer, T_max=EPOCHS - 2)], milestones=[2])
    of_epoch = []
    for _ in range(EPOCHS):
        of_epoch.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    found = json.loads(plan.last_line)["learning_rates"]
    expected = [of_epoch[int(step * 10 / SAMPLES)] for step, _ in found]
    assert [rate for _, rate in found] == pytest.approx(expected, rel=1e-9)
    record("Pasted commands", "torchvision's schedule in broken epochs", f"torch {torch.__version__}", "1e-9 of the rate",
           worst_ratio([rate for _, rate in found], expected))


# Programs that are in no package: what their sources compute, of the number of updates done. torchvision steps
# torch.optim.lr_scheduler.ExponentialLR once an epoch.


def of_nvidia(schedule):
    """lr_step_policy, lr_linear_policy and lr_cosine_policy of optimizers.py, with --warmup 5 and 90 epochs."""
    def rate(step):
        epoch = step // STEPS_OF_EPOCH
        part = (epoch - 5) / 85
        after = {"step": 0.1 ** sum(epoch >= milestone for milestone in (30, 60, 80)), "linear": 1 - part,
                 "cosine": 0.01 + 0.99 * (1 + math.cos(math.pi * part)) / 2}
        return 0.4 * ((epoch + 1) / 5 if epoch < 5 else after[schedule])
    return rate


def of_aws(mode):
    """get_lr and warmup_decay of train_imagenet_resnet_hvd.py, with 5 epochs of warmup and 90 in all. The update at
    a milestone, which has the rate before it there and that after it here, is left out."""
    def rate(step):
        warmup, total = 5 * STEPS_OF_EPOCH, 90 * STEPS_OF_EPOCH
        if step < warmup:
            return 0.001 + (0.4 - 0.001) * step / warmup
        if mode == "poly":
            return 1e-5 + (0.4 - 1e-5) * (1 - (step - warmup) / (total - warmup)) ** 2
        milestones = [milestone * STEPS_OF_EPOCH for milestone in (30, 60, 80)]
        return None if step in milestones else 0.4 * 0.1 ** sum(step > milestone for milestone in milestones)
    return rate


def of_horovod(step):
    """adjust_learning_rate of pytorch_imagenet_resnet50.py, on 4 devices."""
    epoch, batch = divmod(step, STEPS_OF_EPOCH // 4)
    if epoch < 5:
        epoch += (batch + 1) / (STEPS_OF_EPOCH // 4)
        return 0.1 * 4 * (1 / 4 * (epoch * (4 - 1) / 5 + 1))
    return 0.1 * 4 * 0.1 ** sum(epoch >= milestone for milestone in (30, 60, 80))


def of_fairseq(schedule):
    """Trainer._build_optimizer calls step_update(0), so that the first update has the rate of no update. With 100 updates
    of warmup, of 600."""
    def rate(updates):
        if schedule == "fixed":
            return 0.4 * min(1, (updates + 1) / 100)
        return 0.4 * updates / 100 if updates <= 100 else 0.01 + (0.4 - 0.01) * max(0, 1 - (updates - 100) / 500)
    return rate


def of_tensorflow(step):
    """get_learning_rate of resnet_model.py in tf_cnn_benchmarks, with batches of 64 on one device."""
    per_epoch = 1281167 / 64
    warmup = int(5 * per_epoch)
    return 0.032 * (step / warmup if step < warmup else 0.1 ** sum(step > int(epoch * per_epoch) for epoch in (30, 60, 80, 90)))


def of_mxnet(samples, batch):
    """_get_lr_scheduler of common/fit.py and MultiFactorScheduler, which counts updates from 1."""
    return lambda step: 0.1 * 0.1 ** sum(step + 1 > math.ceil(samples / batch) * epoch for epoch in (30, 60))


OTHERS = {
    **{f"NVIDIA's schedule {name}": (f"{{data}} --data-backend=pytorch --warmup 5 --lr 0.4 {flags}", of_nvidia(name)) for name, flags in
       [("step", ""), ("linear", "--lr-schedule linear"), ("cosine", "--lr-schedule cosine --end-lr 4e-3")]},
    "AWS' schedule poly": ("--data_dir={data} --num_epochs 90 --lr 0.4 --warmup_epochs 5", of_aws("poly")),
    "AWS' schedule steps": ("--data_dir={data} --num_epochs 90 --lr_decay_mode steps --lr 0.4 --warmup_epochs 5", of_aws("steps")),
    "the schedule of PyTorch's examples/imagenet": ("-a resnet18 {data}", lambda step: 0.1 * 0.1 ** (step // STEPS_OF_EPOCH // 30)),
    "torchvision's schedule exponentiallr": ("--data-path {data} --lr-scheduler=exponentiallr --lr-gamma=0.9",
                                             lambda step: 0.1 * 0.9 ** (step // STEPS_OF_EPOCH)),
    "Horovod's schedule": ("--data_dir={data} --base-lr 0.1 --rank=0 --world_size=4 --master_addr=localhost --master_port=29500", of_horovod),
    "fairseq's schedule polynomial_decay": ("{data} --warmup-updates 100 --lr 0.4 --end-learning-rate 0.01 --lr-scheduler polynomial_decay "
                                            "--total-num-update 600 --optimizer sgd", of_fairseq("poly")),
    "tf_cnn_benchmarks' schedule": ("--variable_update=replicated --batch_size=64 --model=resnet50 --num_batches=1880000", of_tensorflow),
    "MXNet's schedule": ("train_imagenet.py --benchmark 1 --batch-size 64 --network resnet-v1 --num-epochs 80", of_mxnet(1281167, 64)),
    "MXNet's schedule with data": ("train_imagenet.py --data-train {data}/train.safetensors --data-val {data}/val.safetensors --num-layers 18 "
                                   "--num-classes 10 --num-examples 64 --batch-size 7 --augment=none --hflip=0.5", of_mxnet(64, 7)),
    "fairseq's schedule fixed": ("{data} --warmup-updates 100 --lr 0.4 --optimizer sgd", of_fairseq("fixed"))}


@pytest.mark.parametrize("name", OTHERS)
def test_rates_of_programs_without_a_package(data, name):
    command, reference = OTHERS[name]
    given = [] if "--batch" in command else [f"--batch-size={BATCH}", "--model=resnet18", "--epochs=90"]
    plan = run(*command.format(data=data).split(), *given, "--dry_run", "--log_format=json")
    pairs = [(rate, reference(step)) for step, rate in json.loads(plan.last_line)["learning_rates"] if reference(step) is not None]
    found, expected = zip(*pairs)
    assert len(found) > 150 and found == pytest.approx(expected, rel=1e-9, abs=1e-15)
    record("Pasted commands", name, "what its source computes", "1e-9 of the rate",
           worst_ratio(*zip(*[pair for pair in pairs if pair[1] > 0])))


# ---- What evaluation sees --------------------------------------------------------------------------------------------


def test_timms_models_are_evaluated_as_by_timm():
    """All that timm has, of which some are tried without DTRAIN_LONG_TESTS. timm's train.py evaluates as the model's default_cfg
    says, validate.py as that says of tests. Some squash images to that size, which is not done here."""
    known = {line.split()[0]: timm.get_pretrained_cfg(line.split()[0]) for line in run("--list_models").stdout.splitlines()}
    names = [name for name, cfg in known.items() if cfg is not None]
    assert len(names) > 80
    for name in names if LONG else names[::12]:
        for script in ("train.py", "validate.py"):
            config = json.loads(run(script, "--init_weights=x", "--sched=cosine", f"--model={name}", "--data_dir=anywhere", "--print_config").stdout)
            cfg = timm.data.resolve_data_config({}, pretrained_cfg=known[name].to_dict(), use_test_size=script == "validate.py")
            resized = timm.data.create_transform(**cfg).transforms[0].size
            found = {key: config[key] for key in ("image_size", "eval_resize", "eval_interpolation", "mean", "std")}
            assert found == {"image_size": cfg["input_size"][-1], "eval_resize": resized if isinstance(resized, int) else resized[0],
                             "eval_interpolation": cfg["interpolation"], "mean": list(cfg["mean"]), "std": list(cfg["std"])}, (name, script)
    record("Pasted commands", "how timm evaluates its models", TIMM, "the same settings", 0)


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_b0", "efficientnet_b5"])
def test_timms_models_have_timms_dropout_and_norms(name):
    config = json.loads(run("--sched=cosine", f"--model={name}", "--data_dir=anywhere", "--print_config").stdout)
    model = timm.create_model(name)
    norm = model.bn1
    if name.startswith("efficientnet"):
        assert (config["bn_eps"], config["bn_momentum"]) == (norm.eps, norm.momentum)
        assert (config["dropout"], config["drop_path"]) == (model.drop_rate, 0)
    else:
        assert config["zero_init_residual"] == (model.layer1[0].bn2.weight.abs().sum().item() == 0)
    record("Pasted commands", f"timm's {name}", TIMM, "the same settings", 0)
