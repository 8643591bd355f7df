"""Settings that change live. Everybody sees what holds for everybody; secrets are shown to nobody."""

from __future__ import annotations

from typing import Any

from stoker.lab import settings as lab
from stoker.lab.book import Book
from stoker.text import about_field
from stoker.wire_admin import SettingView, SettingWish

from .query import NoQuery
from .route import Call, route


@route("GET", "/settings", access="person", scope="tasks:read", answer=list[SettingView])
async def list_settings(call: Call[NoQuery, None]) -> list[SettingView]:
    """Every setting that changes live, with where its value comes from; secret ones only for
    admins, and without their value."""
    book = call.parts.flow.book
    return [
        _view(book, setting, call.language)
        for setting in lab.SETTINGS.values()
        if call.who.is_admin or not setting.secret
    ]


@route(
    "PUT",
    "/settings/{setting}",
    access="admin",
    scope="admin",
    body=SettingWish,
    answer=SettingView,
    refusals=(409,),
)
async def set_setting(call: Call[NoQuery, SettingWish]) -> SettingView:
    """From now on it has this value; it takes effect at once and is kept over restarts."""
    book = call.parts.flow.book
    await lab.change(book, _name(call), call.body.value, **call.stamp)
    return _view(book, lab.declared(_name(call)), call.language)


@route(
    "DELETE",
    "/settings/{setting}",
    access="admin",
    scope="admin",
    answer=SettingView,
    refusals=(409,),
)
async def unset_setting(call: Call[NoQuery, None]) -> SettingView:
    """Back to what config.toml says, or to what Stoker comes with."""
    book = call.parts.flow.book
    await lab.unset(book, _name(call), **call.stamp)
    return _view(book, lab.declared(_name(call)), call.language)


ROUTES = (list_settings, set_setting, unset_setting)


def _name(call: Call[NoQuery, Any]) -> str:
    return call.named("setting")


def _view(book: Book, setting: lab.Setting, language: str) -> SettingView:
    value, default = getattr(book.rules, setting.name), getattr(book.defaults, setting.name)
    if setting.secret:
        value, default = value and lab.HIDDEN, default and lab.HIDDEN
    return SettingView(
        name=setting.name,
        value=value,
        default=default,
        source=lab.source_of(book, setting.name),
        kind=setting.kind,
        choices=setting.choices,
        least=setting.least,
        most=setting.most,
        about=about_field(f"rule.{setting.name}", setting.about, language),
    )
