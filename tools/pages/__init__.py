"""The generated pages of docs/, one module each. A page is a text made from declarations only."""
