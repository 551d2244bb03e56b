"""Fetch the compatibility groups of a contract: sets of versions that need not be compatible with other sets."""

from __future__ import annotations

import httpx
import structlog

from tidegate.contracts.errors import ContractError, StreamStopped, Unavailable
from tidegate.contracts.judge.groups import MOST_GROUPS, GroupPlan, group_plans
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.masks import require_key
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, send
from tidegate.contracts.registry_client.requests import ListedGroups

log = structlog.get_logger()


def compile_answer(answer: RegistryAnswer, name: str, mask_key: MaskKey | None) -> EnforcementPlan:
    """Return the compiled contract of an answer.

    Raises StreamStopped for a contract that this release cannot read, SettingsError for masks without a key, and
    Unavailable for an answer that is no contract: a proxy has answered, such as with a page for maintenance.
    """
    try:
        contract = requests.read_contract(answer, name)
        require_key(contract, mask_key)
        return compile_plan(contract, mask_key)
    except ContractError as error:
        if "apiVersion" not in answer.document:
            raise Unavailable(
                f"{name}: the answer is no contract, so another server than the registry gave it"
            ) from error
        # The registry compiled this contract when it was published, so registry and job run different releases.
        problems = "; ".join(map(str, error.problems))
        raise StreamStopped(
            f"the contract of the registry cannot be read by this version: {problems}. Upgrade the job, or publish a "
            "version that it can read: tidegate publish FILE"
        ) from error


class GroupSource:
    """The groups of one contract, cached. Versions never change, so each is fetched and compiled once.

    Unchanged groups cost one conditional request.
    """

    def __init__(self, client: httpx.Client, contract_id: str, mask_key: MaskKey | None) -> None:
        self._client = client
        self._contract_id = contract_id
        self._mask_key = mask_key
        self._etag: str | None = None
        self._plans: dict[str, EnforcementPlan] = {}
        self._plan: EnforcementPlan | None = None

    def current(self, latest: EnforcementPlan) -> EnforcementPlan:
        """Return the plan of all groups, or `latest` for a subject with fewer than two.

        Raises Unavailable, httpx.HTTPError, StreamStopped and SettingsError; ContractError for versions that cannot
        share one table.
        """
        answer = send(self._client, requests.compatibility_groups(self._contract_id, self._etag))
        if answer.status != httpx.codes.NOT_MODIFIED:
            self._plan = self._compile(_listed(answer), latest)
            self._etag = answer.etag
        return self._plan or latest

    def _compile(self, found: ListedGroups, latest: EnforcementPlan) -> EnforcementPlan | None:
        versions = {each.version for each in found.groups if each.version is not None}
        if len(found.groups) < 2 or found.newest is None:
            self._plans = {}
            return None
        # The newest version is compiled already.
        known = {**self._plans, latest.contract.version: latest}
        # One more than the limit is enough for the error about too many groups.
        wanted = sorted(versions)[: MOST_GROUPS + 1]
        self._plans = {version: known.get(version) or self._fetch(version) for version in wanted}
        groups = [
            GroupPlan(each.group, each.schemas, self._plans.get(each.version or "")) for each in found.groups
        ]
        plan = group_plans(groups, found.newest)
        log.info(
            "groups_loaded",
            stream=self._contract_id,
            versions={group.name: group.plan.contract.version for group in groups if group.plan},
        )
        return plan

    def _fetch(self, version: str) -> EnforcementPlan:
        answer = send(self._client, requests.contract_version(self._contract_id, version))
        if answer.is_missing:  # deleted between the two requests: the next list will lack it
            raise Unavailable(f"the registry listed {self._contract_id}@{version}, and has it no more")
        if not answer.is_ok:
            raise Unavailable(f"the registry answered {answer.status} for {self._contract_id}@{version}")
        return compile_answer(answer, f"{self._contract_id}@{version}", self._mask_key)


def _listed(answer: RegistryAnswer) -> ListedGroups:
    if not answer.is_ok:
        raise Unavailable(f"the registry answered {answer.status} to the request for compatibility groups")
    try:
        return answer.read(ListedGroups)
    except ValueError as error:
        raise Unavailable("the registry returned an invalid list of compatibility groups") from error
