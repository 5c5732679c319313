// `dslaunch schema [--markdown]`.
#pragma once

namespace CLI {
class App;
}

namespace ds {

struct SchemaOptions {
  bool markdown = false;  // docs/config.md, else the JSON Schema
};

void describe_schema(CLI::App& app, SchemaOptions& values);

}  // namespace ds
