"""Workspaces as pods of a Kubernetes cluster, homes as claims of volumes, storage jobs as pods beside them.

`driver.py` puts the parts together; `manifests.py`, `policies.py`, `seen.py` and `explain.py` are pure; `access.py`
finds the cluster and who we are there, `api.py` speaks to it, `watch.py` hears of changes.
"""

from codehub.drivers.kubernetes.driver import KubernetesDriver
from codehub.drivers.kubernetes.options import KubernetesOptions

__all__ = ["KubernetesDriver", "KubernetesOptions"]
