"""What deploy/ describes is what compose, Kubernetes, Prometheus and Grafana take, and hangs together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml
from deploy_harness import DEPLOY, PROJECT, absent

KUBERNETES = DEPLOY / "kubernetes"
FOLDERS_OF_COMPOSE = ("./nginx/", "./prometheus", "./grafana/")


def resources() -> dict[str, Any]:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    return {name: yaml.safe_load((KUBERNETES / name).read_text()) for name in listed}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_compose_follows_the_specification() -> None:
    pytest.importorskip("check_jsonschema")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_mounts_what_there_is() -> None:
    for name, service in compose()["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
        assert set(service.get("secrets", [])) <= set(compose()["secrets"]), name


def test_compose_runs_two_confined_replicas() -> None:
    services = compose()["services"]
    for name in ("sealane-1", "sealane-2", "init"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("name", sorted(resources()))
def test_kubernetes_takes_it(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    resource = resources()[name]
    version = validate.latest_version()
    validate.validate(resource, version, strict=True)


def test_every_kubernetes_file_is_listed() -> None:
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert there == set(resources())


def test_the_pod_keeps_to_the_restricted_profile() -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards, "restricted"."""
    pod = resources()["deployment.yaml"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for container in pod["containers"] + pod["initContainers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} <= {"emptyDir", "secret", "configMap"}


def test_selectors_select_the_pod() -> None:
    parts = resources()
    labels = parts["deployment.yaml"]["spec"]["template"]["metadata"]["labels"].items()
    assert parts["deployment.yaml"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert parts["service.yaml"]["spec"]["selector"].items() <= labels
    assert parts["pdb.yaml"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert parts["networkpolicy.yaml"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    assert parts["hpa.yaml"]["spec"]["scaleTargetRef"]["name"] == parts["deployment.yaml"]["metadata"]["name"]


def test_a_pod_has_time_to_drain() -> None:
    pod = resources()["deployment.yaml"]["spec"]["template"]["spec"]
    drain = float(re.findall(r"^SEALANE_DRAIN_TIMEOUT=(.+)$", (KUBERNETES / "settings.env").read_text(), re.M)[0])
    wait = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= wait + drain


def test_streams_have_a_disk_to_wait_on() -> None:
    from service.settings import Settings

    spool = str(Settings.model_fields["spool_folder"].default)
    services = compose()["services"]
    disks = [services[name]["volumes"] for name in ("sealane-1", "sealane-2")]
    assert disks == [[f"spool-1:{spool}"], [f"spool-2:{spool}"]]
    pod = resources()["deployment.yaml"]["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volume = next(volume for volume in pod["volumes"] if volume["name"] == mounts[spool])
    most = int(re.findall(r"^SEALANE_SPOOL_TOTAL_BYTES=(.+)$", (KUBERNETES / "settings.env").read_text(), re.M)[0])
    assert int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 2**30 > most


def variables() -> set[str]:
    from service.settings import Settings

    return {f"SEALANE_{name.upper()}" for name in Settings.model_fields} | {"SEALANE_ENGINE"}


def test_settings_that_are_set_exist() -> None:
    named = set(re.findall(r"^(SEALANE_\w+)=", (KUBERNETES / "settings.env").read_text(), re.M))
    named |= {name for name in compose()["services"]["sealane-1"]["environment"] if name.startswith("SEALANE_")}
    named |= set(re.findall(r"SEALANE_\w+(?==)", (PROJECT / "Dockerfile").read_text())) - {"SEALANE_CACHE"}
    assert named <= variables()


def metrics() -> set[str]:
    """Names of all that the service exposes, as Prometheus stores them."""
    source = (PROJECT / "service/telemetry.py").read_text()
    names = set(re.findall(r'FamilyX?\("(sealane_\w+)"', source))
    counters = {f"{name}_total" for name in re.findall(r'CounterMetricFamily\("(sealane_\w+)"', source)}
    histograms = {f"{name}_bucket" for name in re.findall(r'HistogramMetricFamily\("(sealane_\w+)"', source)}
    from service.telemetry import STATES

    return names | counters | histograms | {f"sealane_{name}" for name, *_ in STATES} | {"sealane_workers"}


def test_dashboard_and_alerts_ask_for_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana/dashboards/sealane.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]:
        asked += [rule["expr"] for rule in group["rules"]]
    assert len(asked) > 15
    for expression in asked:
        for name in re.findall(r"\bsealane_\w+", expression):
            assert name in metrics(), expression


def test_every_alert_is_explained() -> None:
    text = (PROJECT / "docs/operations.md").read_text()
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["alert"] in text


def test_prometheus_takes_its_configuration() -> None:
    if not shutil.which("promtool"):
        absent("promtool is not installed (Debian's prometheus)")
    done = subprocess.run(
        ["promtool", "check", "config", DEPLOY / "prometheus/prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
