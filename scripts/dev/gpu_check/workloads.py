"""What is measured: models, their sizes, and the flags with which both sides train the same."""

from dataclasses import dataclass, replace

SGD = ("--optimizer=sgd", "--momentum=0.9", "--nesterov", "--lr=0.01")
ADAMW = ("--optimizer=adamw", "--weight_decay=0.01", "--lr=0.0001")


@dataclass(frozen=True)
class Workload:
    title: str
    model: str
    optimizer: tuple[str, ...] = SGD
    image_size: int = 224
    num_classes: int = 1000
    tokens_per_sample: int = 0
    vocab_size: int = 0
    padding_id: int = 1

    @property
    def text(self) -> bool:
        return self.tokens_per_sample > 0

    @property
    def unit(self) -> str:
        return "tokens" if self.text else "images"

    def shape(self) -> dict:
        """Returns what both sides must know of the model; dtrain's flags have these names, too."""
        names = ("tokens_per_sample", "vocab_size") if self.text else ("image_size", "num_classes")
        return {"model": self.model, **{name: getattr(self, name) for name in names}}

    def flags(self) -> list[str]:
        return [f"--{name}={value}" for name, value in self.shape().items()]


RESNET50 = Workload("ResNet-50", "resnet50")
EFFICIENTNET = Workload("EfficientNet-B0", "efficientnet_b0")
ROBERTA = Workload("RoBERTa-base", "roberta_base", ADAMW, tokens_per_sample=512, vocab_size=50265)
ROBERTA_LARGE = replace(ROBERTA, title="RoBERTa-large", model="roberta_large")
BERT = replace(ROBERTA, title="BERT-base", model="bert_base", vocab_size=30522, padding_id=0)
XLM_ROBERTA = replace(ROBERTA, title="XLM-R-base", model="xlm_roberta_base", vocab_size=250002)
MODERNBERT = replace(ROBERTA, title="ModernBERT-base", model="modernbert_base", vocab_size=50368, padding_id=50283)
LONG_MODERNBERT = replace(MODERNBERT, tokens_per_sample=8192)
VIT = Workload("ViT-B", "vit_base_patch16_224", ADAMW)
SMALL_VIT = Workload("ViT-S", "vit_small_patch16_224", ADAMW)
CONVNEXT = Workload("ConvNeXt-T", "convnext_tiny", ADAMW)
EFFICIENTNETV2 = Workload("EfficientNetV2-S", "efficientnet_v2_s")
# For --smoke.
TINY_IMAGES = Workload("tiny images", "resnet18", image_size=32, num_classes=10)
TINY_TEXT = Workload("tiny text", "roberta_tiny", ADAMW, tokens_per_sample=16, vocab_size=100)


@dataclass(frozen=True)
class Case:
    """One training: a workload with a precision and a batch size."""
    workload: Workload
    batch_size: int
    precision: str = "bf16"
    decoded: bool = False  # from JPEGs instead of one synthetic batch
    ragged: bool = False  # samples of a third of the length on average, from a file

    @property
    def name(self) -> str:
        length = f" x {self.workload.tokens_per_sample}" if self.workload.text else ""
        source = " JPEGs" if self.decoded else " ragged" if self.ragged else ""
        return f"{self.workload.title} {self.precision} {self.batch_size}{length}{source}"

    @property
    def unit(self) -> str:
        return "samples" if self.ragged else self.workload.unit

    def flags(self) -> list[str]:
        return [*self.workload.flags(), f"--batch_size={self.batch_size}", f"--precision={self.precision}",
                *self.workload.optimizer]

    def request(self) -> dict:
        """Returns what the peer must know of the case."""
        return self.workload.shape() | {"batch_size": self.batch_size, "precision": self.precision, "ragged": self.ragged,
                                        "adamw": self.workload.optimizer == ADAMW}


def small(case: Case) -> Case:
    if case.workload.text:
        return replace(case, workload=TINY_TEXT, precision="fp32", batch_size=2)
    return replace(case, workload=TINY_IMAGES, precision="fp32", batch_size=4)


def cases(smoke: bool, *wanted: Case) -> list[Case]:
    """Returns the wanted cases; with `smoke` small ones, each once."""
    return list(dict.fromkeys(map(small, wanted))) if smoke else list(wanted)


def plan(smoke: bool) -> dict:
    """Returns how long both sides train: steps before the timed ones, timed steps at least, and their seconds at least."""
    return {"warmup": 1, "steps": 2, "seconds": 0} if smoke else {"warmup": 10, "steps": 10, "seconds": 4}


def plan_flags(smoke: bool) -> list[str]:
    return [f"--{name}={value}" for name, value in plan(smoke).items()]
