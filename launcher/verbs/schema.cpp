#include "launcher/verbs/schema.h"

#include <fmt/format.h>

#include "cli/terminal_text.h"
#include "config/documentation.h"
#include "config/reader/value.h"
#include "config/schema.h"

namespace ds {

int run_schema(const SchemaOptions& options) {
  say("{}", options.markdown ? config_documentation() : to_json(json_schema()));
  return 0;
}

}  // namespace ds
