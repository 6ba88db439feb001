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


@pytest.fixture(scope="session")
def several() -> Diagnosis:
    return synthetic.arms(3)


@pytest.fixture(scope="session")
def many() -> Diagnosis:
    return synthetic.arms(12)


@pytest.fixture(scope="session")
def forced() -> Diagnosis:
    return synthetic.forced()


@pytest.fixture(scope="session")
def shifted() -> Diagnosis:
    return synthetic.shifted()
