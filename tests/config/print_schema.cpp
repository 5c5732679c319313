// Prints the JSON Schema of train.json, for schema_test.py, which checks it with a real validator.
#include <cstdio>

#include "config/explain/schema.h"

int main() {
  std::fputs(ds::to_json(ds::json_schema()).c_str(), stdout);
  return 0;
}
