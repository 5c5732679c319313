// Every documented key (tests/golden/config/keys.txt): fields() knows it with the documented
// default, it takes a legal value that explain then shows, and it refuses an illegal one at its
// position. Every key of fields() also keeps what it says about its effect. The values are
// generated from the catalogue, so a new key needs no new case.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "config/available.h"
#include "config/catalogue.h"
#include "config/explain/explain.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "config/reader/overrides.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {

namespace {

struct Key {
  std::string path;        // with <group> placeholders
  std::string conditions;  // "optimizer.type=Adam", or "-"
  Value default_value;
  bool seed = false;
};

std::vector<Key> documented_keys() {
  std::ifstream in(testing::source_directory() + "/tests/golden/config/keys.txt");
  REQUIRE(in);
  std::vector<Key> keys;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    Key key;
    std::string default_text, seed;
    std::getline(cells, key.path, '\t');
    std::getline(cells, key.conditions, '\t');
    std::getline(cells, default_text, '\t');
    std::getline(cells, seed, '\t');
    key.default_value = read_config_value(default_text, {});
    key.seed = seed == "seed";
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string concrete(std::string path) {
  for (const auto& [placeholder, name] : {std::pair("<metric>", "m1"), std::pair("<group>", "g1"),
                                          std::pair("<param>", "p1"), std::pair("[]", "")}) {
    if (const size_t at = path.find(placeholder); at != std::string::npos) {
      path.replace(at, std::string(placeholder).size(), name);
    }
  }
  return path;
}

const CatalogueEntry* entry_of(const std::vector<CatalogueEntry>& entries, const Key& key) {
  const std::string value = key.conditions.substr(key.conditions.find('=') + 1);
  for (const CatalogueEntry& entry : entries) {
    const bool holds = entry.condition.empty() || key.conditions == "-" ||
                       (entry.condition + " ").find(" " + value + " ") != std::string::npos;
    if (entry.path == key.path && holds) return &entry;
  }
  return find_entry(entries, concrete(key.path));
}

bool same_value(const Value& a, const Value& b) {
  const auto numeric = [](const Value& v) {
    return v.kind() == Value::Kind::kInteger || v.kind() == Value::Kind::kNumber;
  };
  if (numeric(a) && numeric(b)) return a.as_number() == b.as_number();
  if (a.is_list() && b.is_list()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      same_value);
  }
  // A field that takes one value or a list holds a list.
  if (a.is_list() && a.items().size() == 1 && !b.is_list()) return same_value(a.items()[0], b);
  return same_content(a, b);
}

bool fits(double number, const std::string& range) {
  std::istringstream in(range);
  std::string sign;
  std::string bound_text;
  while (in >> sign >> bound_text) {
    const double bound = std::stod(bound_text);
    if (sign == ">=" && number < bound) return false;
    if (sign == ">" && number <= bound) return false;
    if (sign == "<=" && number > bound) return false;
    if (sign == "<" && number >= bound) return false;
  }
  return true;
}

// A JSON text that the field takes and that is not its default.
std::string legal_text(const CatalogueEntry& entry) {
  const Value& usual = entry.default_value;
  const std::string& type = entry.type;
  if (entry.path == "compile.passes") return "[\"z1\"]";
  if (type.starts_with("boolean")) {
    return usual.kind() == Value::Kind::kBoolean && usual.as_boolean() ? "false" : "true";
  }
  if (type.starts_with("integer")) {
    for (const int64_t n : {16, 2, 3, 1, 0}) {
      const bool is_default = usual.kind() == Value::Kind::kInteger && usual.as_integer() == n;
      if (!is_default && fits(static_cast<double>(n), entry.range)) return std::to_string(n);
    }
  }
  if (type.starts_with("number")) {
    for (const double x : {0.5, 0.125, 2.0}) {
      const bool is_default = usual.kind() == Value::Kind::kNumber && usual.as_number() == x;
      if (!is_default && fits(x, entry.range)) return to_compact_json(Value::number(x));
    }
  }
  if (!entry.enum_names.empty()) {
    const bool second = usual.is_string() && entry.enum_names.size() > 1 &&
                        usual.as_string() == entry.enum_names[0];
    return "\"" + entry.enum_names[second ? 1 : 0] + "\"";
  }
  if (type.starts_with("list of two")) return "[0.5,0.25]";
  if (type.starts_with("list of integers")) return "[8,16]";
  if (type.starts_with("list of numbers")) return "[0.5]";
  if (type.starts_with("list of strings") || type.starts_with("string or list")) return "[\"x\"]";
  if (type.starts_with("list of lists")) return "[[\"x\"]]";
  if (type.starts_with("string")) return "\"x\"";
  return "{\"a\":1}";
}

std::string illegal_text(const CatalogueEntry& entry) {
  if (entry.type.starts_with("string")) return "5";
  if (entry.type.starts_with("list")) return "{\"a\":1}";
  if (entry.type.starts_with("object")) return "5";
  if (!entry.range.empty() && !entry.type.starts_with("list")) {
    for (const char* text : {"-1", "0", "7.5", "130"}) {
      if (!fits(std::stod(text), entry.range)) return text;
    }
  }
  return "\"no such value\"";
}

// What else has to be there before the key is legal; by path, else by prefix.
const std::map<std::string, std::vector<std::string>>& contexts() {
  static const std::vector<std::string> kCpuAdam = {
      "zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=cpu",
      "optimizer.type=Adam"};
  static const std::map<std::string, std::vector<std::string>> kContexts = {
      {"fp16.fp16_master_weights_and_grads", kCpuAdam},
      {"bf16.bf16_master_weights_and_grads", kCpuAdam},
      {"bf16.bf16_optimizer_states",
       {"zero_optimization.stage=1", "bf16.bf16_master_weights_and_grads=true"}},
      {"zero_optimization.offload_param", {"zero_optimization.stage=3"}},
      {"zero_optimization.offload_optimizer", {"zero_optimization.stage=3"}},
      {"zero_optimization.cpu_offload", {"zero_optimization.stage=1"}},
      {"zero_optimization.cpu_offload_param", {"zero_optimization.stage=3"}},
      {"zero_optimization.zenflow", kCpuAdam},
      {"zero_optimization.zenflow.select_strategy",
       {"zero_optimization.zenflow.select_interval=5"}},
      {"data_types.grad_accum_dtype", {"zero_optimization.stage=1"}},
      {"sparse_attention.num_different_global_patterns",
       {"sparse_attention.different_layout_per_head=true", "sparse_attention.num_local_blocks=16"}},
      {"sparse_attention.num_global_blocks", {"sparse_attention.num_local_blocks=16"}},
      {"sparse_attention.global_block_end_indices",
       {"sparse_attention.global_block_indices=[1,2]"}},
      {"activation_checkpointing.contiguous_memory_optimization",
       {"activation_checkpointing.partition_activations=true",
        "activation_checkpointing.number_checkpoints=4"}},
      {"tensor_parallel.tp.tp_size", {"tensor_parallel.autotp_size=16"}},
      {"autotuning.end_profile_step", {"autotuning.start_profile_step=1"}},
      {"compression_training.weight_quantization.different_groups.g1.params.target_bits",
       {"compression_training.weight_quantization.different_groups.g1.params.start_bits=16"}},
      {"optimizer.params", {"optimizer.type=Adam"}},
      {"optimizer.params.nesterov", {"optimizer.type=SGD", "optimizer.params.momentum=0.9"}},
      {"scheduler.params", {"scheduler.type=WarmupLR"}},
  };
  return kContexts;
}

void apply_context(const std::string& path, Value& document) {
  for (const auto& [prefix, overrides] : contexts()) {
    if (path != prefix && !path.starts_with(prefix + ".")) continue;
    for (const std::string& text : overrides) apply_override(document, text);
  }
}

// A document in which the key has the value `text`, with all that the key presupposes.
std::string document_with(const std::vector<CatalogueEntry>& entries, const Key& key,
                          const std::string& text) {
  Value document = Value::object();
  const std::string path = concrete(key.path);
  apply_context(path, document);
  if (key.conditions != "-") apply_override(document, concrete(key.conditions));
  for (const char* section : {"data_efficiency.data_routing.random_ltd",
                              "data_efficiency.data_sampling.curriculum_learning"}) {
    if (path.starts_with(std::string(section) + ".")) {
      apply_override(document, std::string(section) + ".enabled=true");
    }
  }
  for (const CatalogueEntry& entry : entries) {
    const std::string section = entry.path.substr(0, entry.path.rfind('.'));
    const std::string value = key.conditions.substr(key.conditions.find('=') + 1);
    const bool holds = entry.condition.empty() || entry.condition.find(value) != std::string::npos;
    const bool applies = section != "scheduler.params" || key.conditions.ends_with("OneCycle");
    if (entry.required && holds && applies && key.path.starts_with(section)) {
      apply_override(document, entry.path + "=" + (entry.type == "boolean" ? "true" : "0.5"));
    }
  }
  if (key.path.find("[]") == std::string::npos) {
    apply_override(document, path + "=" + text);
  } else {
    const size_t list = key.path.find("[]");
    apply_override(document, key.path.substr(0, list) + "=[{\"" + key.path.substr(list + 3) +
                                 "\": " + text + "}]");
  }
  return to_json(document);
}

// Errors about the key itself; of a list element, about the element's key.
std::vector<Problem> errors_at(const ReadConfig& read, const Key& key) {
  std::string path = concrete(key.path);
  if (const size_t list = key.path.find("[]"); list != std::string::npos) {
    path = key.path.substr(0, list) + "[0]" + key.path.substr(list + 2);
  }
  std::vector<Problem> errors;
  for (const Problem& problem : read.problems.all()) {
    // The section is off.
    const bool softened = problem.message.find("; has no effect while") != std::string::npos;
    if ((problem.severity == Severity::kError || softened) && problem.path == path)
      errors.push_back(problem);
  }
  return errors;
}

// Keys whose documented default is a matter of inference, or is told otherwise in docs/config.md.
const std::map<std::string, std::string>& other_defaults() {
  static const std::map<std::string, std::string> kOther = {
      {"gradient_accumulation_steps", "inferred; 1 where it cannot be"},
      {"compression_training.sparse_pruning.shared_parameters.schedule_offset_end",
       "absent means schedule_offset: the documented 0 contradicts end >= offset"},
      {"pipeline.stages", "auto is the absence of a number"},
      {"expert_parallel.top_k", "auto is the absence of a number"},
      {"zero_optimization.zenflow.select_interval", "auto is the absence of a number"},
      {"zero_optimization.zenflow.update_interval", "auto is the absence of a number"},
  };
  return kOther;
}

bool is_section(const CatalogueEntry& entry) {
  return entry.kind == EntryKind::kSection || entry.kind == EntryKind::kCollection;
}

bool is_second_name(const CatalogueEntry& entry, const Key& key) {
  return entry.path.substr(entry.path.rfind('.') + 1) != key.path.substr(key.path.rfind('.') + 1);
}

}  // namespace

TEST_CASE("fields() knows every documented key with its default", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  const std::vector<Key> keys = documented_keys();
  CHECK(keys.size() >= 628);
  for (const Key& key : keys) {
    CAPTURE(key.path, key.conditions);
    const CatalogueEntry* entry = entry_of(entries, key);
    if (key.path == "fp16.initial_loss_scale_power") continue;  // is noted as a slip
    // Refused by name, with what to use instead: "old spellings come to what they stand for".
    if (key.path == "optimizer.params.max_grad_norm") continue;
    CHECK(entry != nullptr);
    if (!entry || is_section(*entry) || entry->kind == EntryKind::kRetired) continue;
    if (other_defaults().contains(key.path) || is_second_name(*entry, key)) continue;
    CAPTURE(to_compact_json(entry->default_value), to_compact_json(key.default_value));
    CHECK((entry->required || same_value(entry->default_value, key.default_value)));
  }
}

TEST_CASE("every documented key takes a legal value that explain shows", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  for (const Key& key : documented_keys()) {
    const CatalogueEntry* entry = entry_of(entries, key);
    if (!entry || entry->kind == EntryKind::kRetired) continue;
    if (key.path == "zero_optimization.legacy_stage1") continue;  // only its default is left
    std::string legal = is_section(*entry) ? "{}" : legal_text(*entry);
    if (entry->type == "list of objects") legal = "[]";
    if (key.path == "torch_autocast.dtype") legal = "\"float16\"";
    if (key.path == "pipeline.partition") legal = "\"uniform\"";
    if (key.path == "comet.experiment_key") legal = "\"0123456789abcdef0123456789abcdef\"";
    if (key.path == "zero_optimization.leaf_module.classes") legal = "[\"x\"]";
    if (key.path == "comms_logger.prof_ops") legal = "[\"send\"]";
    const bool secret = key.path == "comet.api_key";
    const std::string text = document_with(entries, key, legal);
    CAPTURE(key.path, key.conditions, text);
    const ReadConfig read = read_config_text(text, "t");
    for (const Problem& problem : errors_at(read, key)) CHECK(problem.text() == "");
    if (is_section(*entry) || key.path.find("[]") != std::string::npos) continue;
    const std::string path = current_name(entries, concrete(key.path));
    const auto rows = explain_all(read, 1);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const ExplainedValue& r) { return r.path == path; });
    REQUIRE(row != rows.end());
    const std::string shown = secret ? "\"(kept secret)\"" : legal;
    CHECK((row->value == shown || row->value == "[" + shown + "]"));
    CHECK(row->origin.starts_with("t:"));
  }
}

TEST_CASE("every documented key refuses an illegal value at its position", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  size_t refused = 0;
  for (const Key& key : documented_keys()) {
    const CatalogueEntry* entry = entry_of(entries, key);
    if (!entry || entry->kind == EntryKind::kRetired || entry->type == "any") continue;
    if (is_second_name(*entry, key) && entry->kind != EntryKind::kField) continue;
    const std::string text = document_with(entries, key, illegal_text(*entry));
    CAPTURE(key.path, key.conditions, text);
    const ReadConfig read = read_config_text(text, "t");
    std::vector<Problem> errors = errors_at(read, key);
    if (errors.empty()) {
      Key now = key;
      now.path = entry->path;
      errors = errors_at(read, now);
    }
    REQUIRE_FALSE(errors.empty());
    CHECK(errors[0].origin.line > 0);
    CHECK(errors[0].message.starts_with("got "));
    ++refused;
  }
  CHECK(refused >= 590);
}

namespace {

// "optimizer.type=Adam" of "type is Adam or AdamW"; sections of kinds are at the top level.
std::string first_case(const CatalogueEntry& entry) {
  if (entry.condition.empty()) return "-";
  const size_t is = entry.condition.find(" is ");
  const std::string value = entry.condition.substr(is + 4);
  return entry.path.substr(0, entry.path.find('.') + 1) + entry.condition.substr(0, is) + "=" +
         value.substr(0, value.find(" or "));
}

// The overrides that switch on every section in which the entry stands.
std::vector<std::string> switches_on(const std::vector<CatalogueEntry>& entries,
                                     const CatalogueEntry& entry) {
  static const std::map<std::string, std::string> kOn = {{"enabled", "true"},
                                                         {"device", "cpu"},
                                                         {"mode", "fixed"},
                                                         {"stage", "3"},
                                                         {"shared_parameters.enabled", "true"}};
  std::vector<std::string> out;
  for (const CatalogueEntry& section : entries) {
    if (section.off.empty() || !entry.path.starts_with(section.path + ".")) continue;
    const std::string key = section.off.substr(0, section.off.find(" is "));
    const std::string path = section.path + "." + key;
    if (path != entry.path) out.push_back(path + "=" + kOn.at(key));
  }
  return out;
}

// Texts of which at least one asks for something else than what is always there.
std::vector<std::string> other_texts(const CatalogueEntry& entry) {
  std::vector<std::string> texts;
  for (const std::string& name : entry.enum_names) texts.push_back("\"" + name + "\"");
  if (entry.type.starts_with("boolean")) texts = {"true", "false"};
  if (texts.empty()) texts = {legal_text(entry)};
  return texts;
}

bool stands_for(const Problem& problem, const std::string& path) {
  const std::string section = problem.path.substr(0, problem.path.find('.'));
  const bool kind = problem.path == section + ".type" || problem.path == section + ".family" ||
                    problem.path == section + ".mode";
  return is_within(path, problem.path) || (kind && is_within(path, section));
}

std::vector<Problem> said_about(const std::vector<CatalogueEntry>& entries,
                                const CatalogueEntry& entry, const std::string& text) {
  const Key key{.path = entry.path, .conditions = first_case(entry), .default_value = {}};
  const std::string document = document_with(entries, key, text);
  // A switch is turned on unless the document has it, as it stands where the key is one.
  ReadConfig read = read_config_text(document, "t", switches_on(entries, entry));
  check_available(read.config, read.origins, read.problems);
  std::vector<Problem> out;
  for (const Problem& problem : read.problems.all()) {
    if (stands_for(problem, current_name(entries, concrete(entry.path)))) out.push_back(problem);
  }
  return out;
}

bool any_says(const std::vector<Problem>& problems, Severity severity, const std::string& text) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    return problem.severity == severity && problem.message.find(text) != std::string::npos;
  });
}

bool keeps_its_word(const std::vector<CatalogueEntry>& entries, const CatalogueEntry& entry,
                    const std::string& text) {
  const std::vector<Problem> said = said_about(entries, entry, text);
  if (entry.effect == Effect::kAlwaysSo) return any_says(said, Severity::kNote, "has no effect");
  return any_says(said, Severity::kError, "not available in this build");
}

}  // namespace

TEST_CASE("what a key says about its effect is what a file gets", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  size_t fixed = 0;
  size_t missing = 0;
  for (const CatalogueEntry& entry : entries) {
    if (entry.kind != EntryKind::kField || entry.path.find("[]") != std::string::npos) continue;
    CHECK_FALSE(entry.effect_text.empty());
    if (entry.effect == Effect::kUsed && entry.only.empty()) continue;
    if (entry.path == "zero_optimization.legacy_stage1") continue;  // refused: it was removed
    CAPTURE(entry.path, entry.condition, entry.effect_text);
    const std::vector<std::string> texts = other_texts(entry);
    CHECK(std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return keeps_its_word(entries, entry, text);
    }));
    ++(entry.effect == Effect::kAlwaysSo ? fixed : missing);
  }
  CHECK(fixed >= 80);
  CHECK(missing >= 200);
}

TEST_CASE("a key that is used is neither refused nor called idle", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  for (const CatalogueEntry& entry : entries) {
    if (entry.kind != EntryKind::kField || entry.effect != Effect::kUsed || !entry.only.empty()) {
      continue;
    }
    CAPTURE(entry.path, entry.condition);
    for (const Problem& problem : said_about(entries, entry, legal_text(entry))) {
      CHECK_THAT(problem.message, !Catch::Contains("not available in this build"));
      CHECK_THAT(problem.message, !Catch::Contains("has no effect here"));
    }
  }
}

TEST_CASE("every key keeps its value through the text that travels to the ranks", "[config]") {
  const std::vector<CatalogueEntry> entries = catalogue();
  size_t kept = 0;
  for (const CatalogueEntry& entry : entries) {
    if (entry.kind != EntryKind::kField || entry.path.find("[]") != std::string::npos) continue;
    const Key key{.path = entry.path, .conditions = first_case(entry), .default_value = {}};
    const std::string document = document_with(entries, key, legal_text(entry));
    CAPTURE(entry.path, entry.condition, document);
    const ReadConfig read = read_config_text(document, "t", switches_on(entries, entry));
    const std::string text = to_config_text(read.config);
    const ReadConfig back = read_config_text(text, "back");
    CHECK(to_config_text(back.config) == text);
    kept += to_config_text(Config{}) == text ? 0 : 1;
  }
  CHECK(kept >= 500);
}

TEST_CASE("a secret is neither written nor shown", "[config]") {
  const std::string document =
      R"({"comet": {"enabled": true, "project": "p", "api_key": "do-not-tell"}})";
  const ReadConfig read = read_config_text(document, "t");
  REQUIRE(read.config.comet.api_key == "do-not-tell");
  CHECK_THAT(to_config_text(read.config), !Catch::Contains("do-not-tell"));
  CHECK_THAT(explain_text(read, 1), !Catch::Contains("do-not-tell"));
  CHECK_THAT(explain_key(read, 1, "comet.api_key"), Catch::Contains("(kept secret)"));
  for (const Problem& problem : read.problems.all()) {
    CHECK_THAT(problem.text(), !Catch::Contains("do-not-tell"));
  }
  const ReadConfig back = read_config_text(to_config_text(read.config), "back");
  CHECK_FALSE(back.config.comet.api_key.has_value());
  CHECK(back.config.comet.project == "p");
}

// The list of all keys that DeepSpeed documents is not part of the sources.
TEST_CASE("every key of the list of documented keys is answered", "[config][config-keys]") {
  const char* const list = std::getenv("DS_CONFIG_KEYS");
  if (list == nullptr) return;
  std::ostringstream text;
  text << std::ifstream(list).rdbuf();
  const std::vector<CatalogueEntry> entries = catalogue();
  const Value keys = read_config_value(text.str(), {});
  CHECK(keys.items().size() >= 600);
  for (const Value& key : keys.items()) {
    const std::string path = key.find("path")->as_string();
    CAPTURE(path);
    const CatalogueEntry* entry = find_entry(entries, concrete(path));
    if (!entry) entry = find_entry(entries, path);
    if (entry) {
      const bool has_effect = !entry->effect_text.empty() || entry->kind != EntryKind::kField;
      CHECK(has_effect);
      continue;
    }
    Value document = Value::object();
    apply_override(document, path + "=5");
    CHECK_FALSE(read_config_text(to_json(document), "t").problems.all().empty());
  }
}

TEST_CASE("old spellings come to what they stand for", "[config]") {
  const auto config = [](const char* text) { return read_config_text(text, "t"); };
  CHECK(config("train_step_batch_size: 4").config.train_micro_batch_size_per_gpu == 4);
  CHECK(config("fp32_allreduce: true").config.communication_data_type == FloatType::kFp32);
  CHECK(config("bfloat16: {\"enabled\": true}").config.bf16.enabled);
  CHECK(config("{zero_optimization: true, allgather_size: 7}")
            .config.zero_optimization.allgather_bucket_size == 7);
  CHECK(config("zero_optimization: true").config.zero_optimization.stage == 1);
  const ReadConfig offload = config(
      "{\"zero_optimization\": {\"stage\": 1, \"cpu_offload\": true, "
      "\"cpu_offload_use_pin_memory\": true}}");
  REQUIRE(offload.config.zero_optimization.offload_optimizer);
  CHECK(offload.config.zero_optimization.offload_optimizer->device == OffloadDevice::kCpu);
  CHECK(offload.config.zero_optimization.offload_optimizer->pin_memory);
  CHECK_FALSE(offload.problems.has_errors());
  const ReadConfig param =
      config("{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_param\": true}}");
  CHECK(param.config.zero_optimization.offload_param.has_value());
  CHECK(config("{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_params\": true}}")
            .config.zero_optimization.offload_param.has_value());
  const std::string clipped = "{optimizer: {type: \"Adam\", params: {max_grad_norm: 0.3}}";
  CHECK(parse_config(clipped + "}").gradient_clipping == 0.3);
  CHECK(parse_config(clipped + ", gradient_clipping: 2}").gradient_clipping == 2.0);
}

}  // namespace ds
