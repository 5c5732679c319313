#include "rankd/verbs/input_facts.h"

#include <fmt/format.h>

#include <optional>

#include "cli/text/terminal_text.h"
#include "config/families/hf_config.h"
#include "config/reader/value.h"
#include "core/files/input_files.h"
#include "data/record_source.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"
#include "data/text/record_objects.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

int print_input_facts(const std::string& path) {
  RealFileSystem disk;
  InputFiles files(disk);
  std::optional<ModelDimensions> model;
  if (files.exists(join_path(path, "config.json"))) model = dimensions(read_hf_config(files, path));
  std::optional<int64_t> tokenizer;
  if (!model || tokenizer_file_in(files, path))
    tokenizer = make_tokenizer(files, path)->vocab_size();
  const auto number = [](std::optional<int64_t> value) {
    return value ? Value::integer(*value) : Value::null();
  };
  Value out = Value::object();
  out.set("positions", number(model ? std::optional(model->positions) : std::nullopt));
  out.set("vocabulary", number(model ? std::optional(model->vocabulary) : std::nullopt));
  out.set("tokenizer", number(tokenizer));
  say("{}", to_json(out));
  return 0;
}

int print_format_of(std::span<const std::string> paths) {
  RealFileSystem disk;
  InputFiles files(disk);
  std::string_view format;
  for (const std::string& path : expand_paths(files, paths)) {
    const RecordLayout layout = layout_of(files, path, record_layout);
    const std::string content = read_decompressed(files, path);
    for_each_object({.content = content, .path = path, .layout = layout},
                    [&](const rapidjson::Value& object, int64_t) {
                      if (format.empty()) format = example_format(object);
                    });
    if (!format.empty()) break;
  }
  say("{}", format.empty() ? "text" : format);
  return 0;
}

}  // namespace ds
