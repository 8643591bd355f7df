"""How people are TOLD: mail, chat robots and webhooks, sent by apprise."""
