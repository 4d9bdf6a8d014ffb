"""The screen of models: those on this machine, and those to pull.

screen       `ModelsScreen`: filter, list and pull together
catalog      `ModelCatalog` finds the models in a thread; row is one of them
model_list   the list in sections; columns makes its lines
filter       the input that filters the list; typed_name makes a row of a typed path or ORG/NAME
pull_status  runs a pull and shows its progress; pull is the thread
"""
