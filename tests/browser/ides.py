"""The IDEs as a person uses them: what is clicked and typed, and what is then seen."""

from typing import Protocol

from playwright.async_api import Page, expect


class Ide(Protocol):
    """One that is open in a tab."""

    @property
    def keeps_unsaved(self) -> bool:
        """Whether what was typed and not saved is there again after a stop."""
        ...

    async def is_shown(self) -> None:
        """Waits until it can be used."""
        ...

    async def run(self, command: str) -> None:
        """In a terminal; opens one if there is none."""
        ...

    async def edit(self, file: str, text: str) -> None:
        """Type into a file that is there and empty, and leave it unsaved."""
        ...

    async def scribble(self, text: str) -> None:
        """Type into an editor that has no file yet."""
        ...

    async def save(self) -> None: ...

    async def shows(self, text: str) -> None:
        """Waits until the editor has it."""
        ...


class CodeServer:
    """VS Code in the browser."""

    keeps_unsaved = True

    def __init__(self, page: Page) -> None:
        self.page = page

    async def is_shown(self) -> None:
        await expect(self.page.locator(".monaco-workbench .part.statusbar")).to_be_visible(timeout=60_000)
        await expect(self.page.locator(".explorer-folders-view .monaco-list")).to_be_visible(timeout=60_000)

    async def run(self, command: str) -> None:
        terminal = self.page.locator(".terminal-wrapper.active .xterm-helper-textarea")
        if not await terminal.count():
            await self.page.keyboard.press("Control+Backquote")
        await expect(terminal).to_be_attached(timeout=60_000)  # its text is painted: nothing of it can be looked for
        await terminal.focus()
        await self.page.keyboard.type(f"{command}\n")

    async def edit(self, file: str, text: str) -> None:
        await self._choose(file)
        await self.page.keyboard.press("Enter")
        await expect(self.page.locator(f".tab.active[data-resource-name='{file}']")).to_be_visible()
        await self.page.locator(".editor-instance .view-lines").first.click()
        await self.page.keyboard.type(text)
        await self.shows(text)

    async def _choose(self, file: str) -> None:
        """It looks for files once for each time that it is asked, and one that was just made may not be found yet."""
        row = self.page.locator(".quick-input-list .monaco-list-row").first
        for left in (5, 4, 3, 2, 1, 0):
            await self.page.keyboard.press("Control+p")
            await self.page.locator(".quick-input-widget input").fill(file)
            try:
                await expect(row).to_contain_text(file, timeout=10_000)
            except AssertionError:
                if not left:
                    raise
                await self.page.keyboard.press("Escape")
            else:
                return

    async def scribble(self, text: str) -> None:
        await self.page.keyboard.press("F1")
        await self.page.locator(".quick-input-widget input").fill(">File: New Untitled Text File")
        command = "[aria-label*='New Untitled Text File']:not([aria-label*='Compare'])"
        await self.page.locator(f".quick-input-list .monaco-list-row{command}").first.click()
        await expect(self.page.locator(".tab.active[data-resource-name='Untitled-1']")).to_be_visible()
        await self.page.keyboard.type(text)
        await self.shows(text)

    async def save(self) -> None:
        await self.page.keyboard.press("Control+s")
        await expect(self.page.locator(".tab.active.dirty")).to_have_count(0)

    async def shows(self, text: str) -> None:
        # Spaces are drawn as ones that do not break.
        shown = self.page.locator(".editor-instance .view-lines").first
        await expect(shown).to_contain_text(text.replace(" ", "\u00a0"), timeout=60_000)


class JupyterLab:
    """Its own editor; what is not saved it does not keep."""

    keeps_unsaved = False

    def __init__(self, page: Page) -> None:
        self.page = page

    async def is_shown(self) -> None:
        await expect(self.page.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
        await expect(self.page.locator(".jp-DirListing-content")).to_be_visible(timeout=60_000)

    async def run(self, command: str) -> None:
        terminal = self.page.locator(".jp-Terminal:not(.lm-mod-hidden)")
        if not await terminal.count():
            await self._launch("Terminal")
        await expect(terminal.locator(".xterm-helper-textarea")).to_be_attached(timeout=60_000)
        await terminal.locator(".xterm-helper-textarea").focus()
        await self.page.keyboard.type(f"{command}\n")

    async def edit(self, file: str, text: str) -> None:
        await self.page.locator(f".jp-DirListing-item[title*='{file}']").dblclick()
        editor = self.page.locator(".jp-FileEditor:not(.lm-mod-hidden) .cm-content")
        await editor.click()
        await self.page.keyboard.type(text)
        await self.shows(text)

    async def scribble(self, text: str) -> None:
        raise NotImplementedError

    async def save(self) -> None:
        await self.page.keyboard.press("Control+s")
        await expect(self.page.locator(".jp-mod-dirty")).to_have_count(0)

    async def shows(self, text: str) -> None:
        await expect(self.page.locator(".jp-FileEditor .cm-content").first).to_contain_text(text, timeout=60_000)

    async def _launch(self, card: str) -> None:
        cards = self.page.locator(f".jp-LauncherCard[title*='{card}' i], .jp-LauncherCard:has-text('{card}')")
        if not await cards.count():
            await self.page.keyboard.press("Control+Shift+l")
        await cards.first.click()


IDES: dict[str, type[CodeServer] | type[JupyterLab]] = {"code-server": CodeServer, "jupyterlab": JupyterLab}
