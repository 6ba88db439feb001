import pytest
import synthetic

from entropy_lab.reports.contents import Diagnosis


@pytest.fixture(scope="session")
def single() -> Diagnosis:
    return synthetic.single()


@pytest.fixture(scope="session")
def compared() -> Diagnosis:
    return synthetic.compared()


@pytest.fixture(scope="session")
def hostile() -> Diagnosis:
    return synthetic.hostile()


@pytest.fixture(scope="session")
def empty() -> Diagnosis:
    return synthetic.empty()
