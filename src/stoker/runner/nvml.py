"""The cards as NVML sees them, through nvidia-ml-py (the module pynvml).

pynvml is bundled in the runner's file and imported only when real cards are asked for: compiling
it takes longer than all of the runner. No method here raises: a value that NVML does not give is
None, a card that fails (lost, fallen off the bus) is left out and the others stay. An index is
the place in PCI order, as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID; a failing card keeps its
place, so that the others do not change theirs. A call may hang as long as the driver does.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from .protocol import Gpu

_MIB = 1024 * 1024
_REOPEN_S = 60.0
"""How often cards that do not answer are looked for."""


@dataclass(frozen=True)
class Reading:
    """One card, measured once. None = not supported by it."""

    uuid: str
    memory_used_mib: Optional[int]
    utilisation: Optional[int]
    temperature_c: Optional[int]
    power_w: Optional[int]
    processes: Dict[int, int]
    """pid to MiB on this card; 0 where NVML does not say."""

    @property
    def is_silent(self) -> bool:
        """Nothing at all was answered: so does a card that is lost."""
        values = (self.memory_used_mib, self.utilisation, self.temperature_c, self.power_w)
        return all(value is None for value in values)


@dataclass(frozen=True)
class _Card:
    pci: Tuple[int, int, int]
    uuid: str
    model: str
    memory_mib: int
    handle: Any


class Nvml:
    """The library, opened at the first question, and anew when cards stop answering."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self._cards: List[Tuple[Gpu, Any]] = []
        self._known: Set[str] = set()
        self._missing: Set[str] = set()
        self._opened_at = 0.0

    def gpus(self) -> Tuple[List[Gpu], str]:
        """Every card that answers now, and why there is none, in NVML's own words."""
        self.close()  # cards that were reset or added appear only after a new start
        error = self._open()
        self._known = {gpu.uuid for gpu, _ in self._cards}
        return [gpu for gpu, _ in self._cards], error

    def readings(self) -> List[Reading]:
        """A measurement of every card that answers."""
        if self._pynvml is None and self._open():
            return []
        readings = [self._read(gpu, handle) for gpu, handle in self._cards]
        answering = [reading for reading in readings if not reading.is_silent]
        self._known.update(gpu.uuid for gpu, _ in self._cards)
        missing = self._known.difference(reading.uuid for reading in answering)
        # A lost card that was reset, and every card after a restart of the driver, answer only
        # to a library that was opened anew.
        is_due = time.monotonic() - self._opened_at > _REOPEN_S
        if missing and (missing != self._missing or is_due):
            self.close()
        self._missing = missing
        return answering

    def close(self) -> None:
        """Let go of the driver."""
        if self._pynvml is not None:
            self._ask("nvmlShutdown")
        self._pynvml = None
        self._cards = []

    def _open(self) -> str:
        """The error when there are no cards because of one."""
        try:
            pynvml = importlib.import_module("pynvml")
        except ImportError as error:
            return str(error)
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return str(error)
        self._pynvml = pynvml
        self._opened_at = time.monotonic()
        try:
            return self._list(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            self.close()
            return str(error)

    def _list(self, count: int) -> str:
        """Learn the cards; the last error when none answered."""
        error = ""
        places: List[int] = []
        cards: List[_Card] = []
        for place in range(count):
            card = self._identify(place)
            if isinstance(card, str):
                error = card
            else:
                places.append(place)
                cards.append(card)
        cards.sort(key=lambda card: card.pci)
        for rank, card in enumerate(cards):
            gpu = Gpu(places[rank], card.uuid, card.model, card.memory_mib)
            self._cards.append((gpu, card.handle))
        return "" if self._cards else error

    def _identify(self, place: int) -> Union[_Card, str]:
        nvml = self._pynvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(place)
            pci = nvml.nvmlDeviceGetPciInfo(handle)
            uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except (nvml.NVMLError, UnicodeDecodeError) as error:
            return str(error)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        total_mib = memory.total // _MIB if memory is not None else 0
        return _Card((pci.domain, pci.bus, pci.device), uuid, model, total_mib, handle)

    def _read(self, gpu: Gpu, handle: Any) -> Reading:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        power_mw = self._ask("nvmlDeviceGetPowerUsage", handle)
        return Reading(
            uuid=gpu.uuid,
            memory_used_mib=None if memory is None else memory.used // _MIB,
            utilisation=None if rates is None else rates.gpu,
            # 0 is NVML_TEMPERATURE_GPU, the only sensor there is
            temperature_c=self._ask("nvmlDeviceGetTemperature", handle, 0),
            power_w=None if power_mw is None else round(power_mw / 1000),
            processes=self._processes(handle),
        )

    def _processes(self, handle: Any) -> Dict[int, int]:
        """Compute and graphics together: a process may be in both lists with the same memory."""
        found: Dict[int, int] = {}
        for kind in ("Compute", "Graphics"):
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            listed = self._ask(name + "_v3", handle)
            if listed is None:
                listed = self._ask(name + "_v2", handle)  # drivers before 510
            for process in listed or ():
                mib = (process.usedGpuMemory or 0) // _MIB
                found[process.pid] = max(mib, found.get(process.pid, 0))
        return found

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The answer, or None: not supported, no permission, card lost, library closed."""
        nvml = self._pynvml
        if nvml is None:
            return None
        try:
            return getattr(nvml, name)(*arguments)
        except nvml.NVMLError:
            return None
