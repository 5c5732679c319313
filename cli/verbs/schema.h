// `dslaunch schema [--markdown]`.
#pragma once

namespace CLI {
class App;
}

namespace ds {

struct SchemaOptions {
  bool markdown = false;  // docs/config.md, else the JSON Schema
  bool json = false;      // what is printed without --markdown is JSON by itself
};

void describe_schema(CLI::App& app, SchemaOptions& values);

}  // namespace ds
