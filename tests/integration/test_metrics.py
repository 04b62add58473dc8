"""--metrics_port and --metrics_file, read by Prometheus' own parser."""

import json
import re
import socket
import urllib.request

import pytest

from command import BUILD, ROOT, TINY, Background, free_port, load_json, losses, run, wait_until

parser = pytest.importorskip("prometheus_client.parser")
promql = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")

MONITORING = ROOT / "scripts" / "monitoring"
TASKS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "trainer" / "tasks").glob("*.cc"))


def names_in(text: str) -> set[str]:
    return set(re.findall(r"dtrain_[a-z0-9_]+", text))


def documented() -> set[str]:
    return names_in((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")) - {"dtrain_main"}


def samples(text: str) -> dict:
    """Returns (name, labels) → value. The parser drops the ending of counters' names; HELP and TYPE must be there."""
    families = list(parser.text_string_to_metric_families(text))
    for family in families:
        if family.name.startswith("dtrain_"):
            assert family.type in ("counter", "gauge") and family.documentation, family
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


@pytest.fixture(scope="module")
def driver(module_dir) -> dict:
    """The environment of a machine with GPUs, which is to compute on the CPU: a substitute for NVML under its name."""
    module_dir.mkdir(exist_ok=True)
    (module_dir / "libnvidia-ml.so.1").symlink_to((BUILD / "tests/trainer/report/libfake_nvml.so").resolve())
    return {"LD_LIBRARY_PATH": str(module_dir), "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def told(few_images, module_dir, driver) -> dict:
    """Returns the contents of --metrics_file at the end of a run."""
    file, folder = module_dir / "dtrain.prom", module_dir / "run"
    run(*TINY, f"--data_dir={few_images}", "--max_steps=6", "--save_every_epochs=1", "--eval_every_epochs=1", f"--metrics_file={file}",
        "--ema_decay=0.9", f"--run_dir={folder}", env=driver)
    return samples(file.read_text(encoding="utf-8"))


def test_a_file_with_the_numbers_of_the_run(told, module_dir):
    result, last = load_json(module_dir / "run" / "result.json"), losses(module_dir / "run")[-1]
    assert told["dtrain_step_total", ()] == result["step"] == 6
    assert (told["dtrain_loss", ()], told["dtrain_val_top1", ()]) == (last[1], result["val_top1"])
    assert told["dtrain_gpu_utilization_ratio", (("gpu", "0"),)] == 0.25
    assert told["dtrain_gpu_memory_used_bytes", (("gpu", "2"),)] == 3 << 30
    assert told["dtrain_finished", ()] == 1


def test_what_is_told_is_what_is_documented(told):
    """A short run on images in fp32 has not all of it. What tasks have is in their sources; test_loss is that of a further set."""
    found = {name.replace("val_ema_top", "val_top") for name, _ in told if name.startswith("dtrain_")}
    assert found < documented() and "dtrain_val_ema_loss" in found
    elsewhere = documented() - found - {"dtrain_tokens_per_second", "dtrain_loss_scale", "dtrain_val_test_loss", "dtrain_val_test_ema_loss"}
    assert [name for name in elsewhere if f'"{name.removeprefix("dtrain_val_")}"' not in TASKS] == [] and len(elsewhere) > 10
    of_tasks = re.findall(r'(?:\b(?:Percent|Coefficient|metric)\(|\.name = )"(\w+)"', TASKS)
    assert [name for name in of_tasks if f"dtrain_val_{name}" not in documented()] == [] and len(of_tasks) > 20


def test_dashboard_alerts_and_agents_ask_for_what_is_served():
    board = load_json(MONITORING / "grafana.json")
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    group, = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        promql.parse(rule["expr"])
        assert set(rule) <= {"alert", "expr", "for", "annotations"} and rule["annotations"]["summary"]
        assert names_in(rule["expr"]) <= documented(), rule["alert"]
    for query in queries:
        promql.parse(query)
    queries += [one["query"]["query"] for one in board["templating"]["list"] if isinstance(one["query"], dict)]
    assert len(queries) > 15
    for query in queries:
        assert names_in(query) and names_in(query) <= documented(), query
    text = (MONITORING / "cloudwatch_agent.json").read_text(encoding="utf-8")  # scripts/aws/eks/metrics.yaml takes it, too
    selectors = [json.loads(f'"{one}"') for one in re.findall(r'"(\^dtrain_[^"]*\$)"', text)]
    assert len(selectors) == 2
    for selector in selectors:
        prefix, words = re.fullmatch(r"\^(dtrain_(?:[a-z_]*))\(?([^)]*)\)?\$", selector).groups()
        assert {prefix + word for word in words.split("|")} <= documented(), selector


def get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()


def test_a_port_that_is_taken(few_images, tmp_path):
    """There is one error before the first step, which the other ranks hear of. Likewise for the file's folder."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run(*TINY, f"--data_dir={few_images}", "--max_steps=1", "--nproc_per_node=2", "--batch_size=8",
                      f"--metrics_port={port}", f"--run_dir={tmp_path / 'run'}", check=2)
    assert f"--metrics_port: cannot listen at http://127.0.0.1:{port}/metrics: Address already in use" in outcome.stderr
    assert outcome.stderr.count("dtrain failed") == 1 and "step 1/" not in outcome.stdout, outcome
    outcome = run(*TINY, f"--data_dir={few_images}", "--max_steps=1", f"--metrics_file={tmp_path / 'none' / 'x.prom'}",
                  f"--run_dir={tmp_path / 'other'}", check=5)
    assert "x.prom" in outcome.stderr and outcome.stderr.count("dtrain failed") == 1


def test_a_run_that_follows_has_the_port_and_goes_on_counting(few_images, run_dir):
    port = free_port()
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=60", f"--metrics_port={port}", f"--run_dir={run_dir}")
    run(*flags, "--limit_train_steps=2")
    with Background(*flags) as training:
        training.wait_for_line("step 3/")
        wait_until(lambda: samples(get(port))["dtrain_step_total", ()] >= 3, "the first step's number")
