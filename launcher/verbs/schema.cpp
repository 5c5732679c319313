#include "launcher/verbs/schema.h"

#include <fmt/format.h>

#include "cli/text/terminal_text.h"
#include "config/explain/documentation.h"
#include "config/explain/schema.h"
#include "config/reader/value.h"

namespace ds {

int run_schema(const SchemaOptions& options) {
  say("{}", options.markdown ? config_documentation() : to_json(json_schema()));
  return 0;
}

}  // namespace ds
