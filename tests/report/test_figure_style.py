"""Figures in the user's own style, in notebooks, and as files: what is respected, what stays, what repeats."""

from io import BytesIO

import matplotlib as mpl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from planner.errors import InputError
from planner.report import figure, render
from planner.report.kit import style


def saved(drawn: Figure, kind: str) -> bytes:
    stream = BytesIO()
    drawn.savefig(stream, format=kind)
    return stream.getvalue()


class TestUsersStyle:
    def test_what_the_user_changed_stands_and_the_rest_is_ours(self, plan):
        ours = figure(plan, "search")
        with mpl.rc_context({"axes.facecolor": "#102030", "text.color": "#ffeedd"}):
            theirs = figure(plan, "search")
        assert to_hex(ours.axes[0].get_facecolor()) == "#ffffff"
        assert to_hex(theirs.axes[0].get_facecolor()) == "#102030"
        best = next(line for line in theirs.axes[0].lines if line.get_label() == "best so far")
        assert to_hex(best.get_color()) == "#ffeedd"  # ink on their paper, not ours on it
        assert not theirs.axes[0].spines["top"].get_visible()  # of which they said nothing

    @pytest.mark.parametrize("name", ["dark_background", "ggplot", "grayscale"])
    def test_known_styles_draw_and_lend_their_colours(self, plan, name):
        with mpl.style.context(name):
            cycle = [to_hex(colour) for colour in mpl.rcParams["axes.prop_cycle"].by_key()["color"]]
            colours = style.palette()
            assert colours[: len(cycle)] == tuple(cycle)
            assert len(colours) >= 8
            assert style.encoded(figure(plan, "mix")).startswith(b"\x89PNG")

    def test_larger_text_makes_a_larger_figure(self, plan):
        usual = figure(plan, "islands")
        with mpl.rc_context({"font.size": 18.0}):
            larger = figure(plan, "islands")
        assert list(larger.get_size_inches()) == pytest.approx(2 * usual.get_size_inches())
        sizes = [{text.get_text(): text.get_fontsize() for text in drawn.axes[0].texts} for drawn in (usual, larger)]
        assert sizes[1] == pytest.approx({words: 2 * size for words, size in sizes[0].items()})

    def test_nothing_of_ours_outlives_a_figure(self, plan):
        before = dict(mpl.rcParams)
        saved(figure(plan, "routing"), "svg")
        assert dict(mpl.rcParams) == before

    def test_latex_is_never_asked_for(self, plan):
        with mpl.rc_context({"text.usetex": True}):
            assert not any(text.get_usetex() for text in figure(plan, "mix").findobj(mpl.text.Text))


class TestFiles:
    @pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
    def test_saved_twice_the_same_bytes(self, plan, kind):
        first, second = (saved(figure(plan, "mix"), kind) for _ in range(2))
        assert first == second
        assert first[:5] in (b"<?xml", b"\x89PNG\r", b"%PDF-")
        assert b"dc:date" not in first

    def test_files_are_the_same_whatever_the_users_style(self, make_plan):
        usual = render(make_plan(), "svg")
        assert {name.rpartition(".")[2] for name in usual} == {"md", "svg"}
        with mpl.rc_context({"font.size": 21, "axes.facecolor": "red", "savefig.dpi": 30}):
            assert render(make_plan(), "svg") == usual
            assert mpl.rcParams["font.size"] == 21

    def test_a_style_that_is_named_is_used(self, plan, tmp_path):
        sheet = tmp_path / "ours.mplstyle"
        sheet.write_text("axes.facecolor: 123456\n")
        assert b"#123456" in render(plan, "svg", str(sheet))["figures/search.svg"]

    def test_an_unknown_style_is_refused(self, plan):
        with pytest.raises(InputError, match="style: must be a style of matplotlib") as caught:
            render(plan, style="nosuch")
        assert "nosuch" in str(caught.value)


class TestNotebooks:
    @pytest.fixture
    def shell(self):
        yield InteractiveShell.instance()
        InteractiveShell.clear_instance()

    def test_a_figure_shows_itself_without_magics(self, shell, plan):
        shown, metadata = shell.display_formatter.format(figure(plan, "mix"))
        picture = shown["image/png"]
        assert picture.startswith(b"\x89PNG")
        assert metadata["image/png"]["width"] == 825  # half the pixels: sharp on dense screens
        assert set(shown) == {"text/plain", "image/png"}

    def test_a_figure_of_a_plan_at_hand_too(self, shell, plan):
        from planner.api.deployments import PlannedDeployment

        shown, _ = shell.display_formatter.format(PlannedDeployment(plan).figure("mix"))
        assert "image/png" in shown

    @pytest.mark.parametrize("kind", ["png", "svg"])
    def test_it_is_not_drawn_twice_where_the_shell_draws(self, shell, plan, monkeypatch, kind):
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(shell, {kind})  # what `%matplotlib inline` does
        drawn = figure(plan, "mix")
        monkeypatch.setattr(style, "encoded", pytest.fail)
        assert drawn._repr_png_() is None
        shown, _ = shell.display_formatter.format(drawn)
        assert set(shown) - {"text/plain"} == {f"image/{'png' if kind == 'png' else 'svg+xml'}"}

    def test_no_shell_no_trouble(self, plan):
        data, _ = figure(plan, "mix")._repr_png_()
        assert data.startswith(b"\x89PNG")
