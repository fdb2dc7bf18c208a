"""A faulty store that ends the process."""

import subprocess
import sys
from pathlib import Path

from omnigraph.runtime.failpoints import CRASH_STATUS


def test_a_faulty_store_can_end_the_process(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from omnigraph.runtime.failpoints import Crash\n"
        "from tests.object_layers import FaultyObjects\n"
        "from omnigraph.store.io.objects import open_objects\n"
        "from omnigraph.store.root import Root\n"
        "FaultyObjects(open_objects(Root.parse(sys.argv[1])), Crash()).get('x')\n"
    )
    answer = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert answer.returncode == CRASH_STATUS
