"""Making who can log in asks for the password, in a dialog, once in some minutes."""

from playwright.async_api import BrowserContext, Page, expect

from tests.browser.site import OWN_ORIGINS, PASSWORD, Site


async def test_the_dashboard_asks_for_the_password_and_goes_on(
    site: Site, browser_context: BrowserContext, page: Page
) -> None:
    await site.log_in(browser_context, OWN_ORIGINS)
    await page.goto(f"{site.url(OWN_ORIGINS)}/account")

    async def make_token(name: str) -> None:
        await page.get_by_label("What it is for").fill(name)
        await page.locator("form.inline-form button[type=submit]").click()

    await make_token("first")
    asked = page.get_by_role("dialog")
    await expect(asked).to_contain_text("Confirm your password")
    await asked.get_by_label("Password").fill("not that one")
    await asked.get_by_role("button", name="Confirm").click()
    await expect(asked).to_contain_text("not right")
    await asked.get_by_label("Password").fill(PASSWORD)
    await asked.get_by_role("button", name="Confirm").click()
    await expect(page.get_by_role("rowheader", name="first")).to_be_visible()
    await make_token("second")
    await expect(page.get_by_role("rowheader", name="second")).to_be_visible()
    await expect(asked).to_have_count(0)
    for token in site.admin.tokens():
        site.admin.revoke_token(token.id)
