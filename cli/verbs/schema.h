// `dslaunch schema [--markdown]`.
#pragma once

namespace ds {

class VerbApp;

struct SchemaOptions {
  bool markdown = false;  // docs/config.md, else the JSON Schema
  bool json = false;      // what is printed without --markdown is JSON by itself
};

void describe_schema(VerbApp& app, SchemaOptions& values);

}  // namespace ds
