"""The report in a real browser without any network: no message, no request, tables that sort."""

from __future__ import annotations

import json
import shutil

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SWITCHES = ["headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"]
NO_NETWORK = ["host-resolver-rules=MAP * ~NOTFOUND", "disable-background-networking"]

BOTTOM = "return document.querySelector('.verdict').getBoundingClientRect().bottom"


@pytest.fixture(scope="module")
def page(written):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in SWITCHES + NO_NETWORK:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        driver.set_window_size(1280, 800)
        driver.get(written.as_uri())
        yield driver
    finally:
        driver.quit()


def test_the_browser_has_nothing_to_say(page):
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked and all(url.startswith(("file:", "data:")) for url in asked)


def test_images_show_and_the_verdict_needs_no_scrolling(page):
    widths = page.execute_script("return [...document.images].map(x => x.naturalWidth)")
    assert len(widths) >= 7 and min(widths) > 100
    assert page.execute_script(BOTTOM) < page.execute_script("return window.innerHeight")


def test_tables_sort(page):
    column = (
        "return [...document.querySelectorAll('table.sorts')[2].tBodies[0].rows]"
        ".map(r => Number(r.cells[2].dataset.value))"
    )
    button = "document.querySelectorAll('table.sorts')[2].querySelectorAll('th button')[2].click()"
    page.execute_script(button)
    falling = page.execute_script(column)
    assert falling == sorted(falling, reverse=True) and len(set(falling)) > 1
    page.execute_script(button)
    assert page.execute_script(column) == falling[::-1]
    head = "return document.querySelectorAll('table.sorts')[2].querySelectorAll('th')[2].ariaSort"
    assert page.execute_script(head) == "ascending"


def test_dark_phone_and_print(page):
    color = "return getComputedStyle(document.body).backgroundColor"
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert page.execute_script(color) == "rgb(13, 17, 23)"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert page.execute_script(color) == "rgb(255, 255, 255)"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    small = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", small)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    assert page.execute_script(BOTTOM) < 844
