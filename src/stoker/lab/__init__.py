"""What the lab HAS DECIDED: people, teams, queues, settings. Kept in the records, changed live."""
