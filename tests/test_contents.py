import entropy_lab


def test_every_public_name_resolves_and_is_listed():
    assert set(entropy_lab.__all__) == set(entropy_lab._HOMES)
    for name in entropy_lab.__all__:
        assert getattr(entropy_lab, name) is not None
