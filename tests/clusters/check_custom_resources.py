"""Validates manifests of custom resources against the models that their projects publish; run with .venv/clusters/bin/python.

check_custom_resources.py FILE…: FILE holds one rendered document as JSON. Unknown fields are errors, although the
packages' own readers ignore them. TrainJob, ClusterTrainingRuntime and the JobSet in it are checked against
kubeflow-trainer-api's models as JSON schemas, PyTorchJob against kubeflow-training's attribute maps; its pods are
checked like a Job's by kubernetes-validate.
"""

import importlib
import json
import sys

import jsonschema
from kubeflow_trainer_api import models as trainer


def strict(schema: dict) -> dict:
    """Returns the schema without the two types that Kubernetes writes as a string or a number, and without unknown
    fields."""
    for name, definition in schema.get("$defs", {}).items():
        if name.endswith(("Quantity", "IntOrString")):
            definition.clear()
            definition["type"] = ["string", "number"]

    def close(node):
        if isinstance(node, dict):
            if "properties" in node and not isinstance(node.get("additionalProperties"), dict):
                node["additionalProperties"] = False
            for value in node.values():
                close(value)
        elif isinstance(node, list):
            for value in node:
                close(value)

    close(schema)
    return schema


def trainer_problems(document: dict, model) -> list[str]:
    validator = jsonschema.Draft202012Validator(strict(model.model_json_schema(by_alias=True)))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
            for whole in validator.iter_errors(document) for error in leaves(whole)]


def leaves(error) -> list:
    """Returns what is wrong with each alternative."""
    return [leaf for part in error.context for leaf in leaves(part)] or [error]


def training_problems(document, kind: str, path: str = "") -> list[str]:
    """Returns the fields that a model of kubeflow-training does not have, down to the pods."""
    if kind.startswith("dict("):
        inner = kind[len("dict("):-1].split(",")[1].strip()
        return [problem for key, value in document.items() for problem in training_problems(value, inner, f"{path}/{key}")]
    if kind.startswith("list["):
        return [problem for value in document for problem in training_problems(value, kind[5:-1], path)]
    models = importlib.import_module("kubeflow.training.models")
    model = getattr(models, kind, None)
    if model is None or not isinstance(document, dict):  # a plain value, or a type of Kubernetes' own
        return []
    names = {json_name: model.openapi_types[name] for name, json_name in model.attribute_map.items()}
    problems = [f"{path}/{key}: not a field of {kind}" for key in document if key not in names]
    for key, value in document.items():
        if key in names:
            problems += training_problems(value, names[key], f"{path}/{key}")
    return problems


def problems_of(document: dict) -> list[str]:
    kind = document["kind"]
    if kind == "PyTorchJob":
        return training_problems(document, "KubeflowOrgV1PyTorchJob")
    name = {"TrainJob": "TrainerV1alpha1TrainJob", "ClusterTrainingRuntime": "TrainerV1alpha1ClusterTrainingRuntime"}[kind]
    return trainer_problems(document, getattr(trainer, name))


def main() -> None:
    found = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            found += [f"{name}: {problem}" for problem in problems_of(json.load(file))]
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
