// What the files of ranks say, and how it goes together, by small files opcode by opcode: layouts
// that DeepSpeed's own fixtures have not, and spoiled ones.
#include <cstring>
#include <memory>

#include "checkpoint/deepspeed/folder.h"
#include "checkpoint/deepspeed/model_states.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/pickle_bytes.h"

namespace ds::deepspeed {
namespace {

using namespace testing::pickle;
using testing::ZipBytes;
using Items = std::vector<std::pair<std::string, std::string>>;

// Files by their names, with the bytes that they are of.
class MadeFiles {
 public:
  const TorchFile& add(const std::string& path, const std::string& value,
                       const Items& storages = {}) {
    bytes_.push_back(std::make_unique<ZipBytes>(file(value, storages)));
    opened_.push_back(
        std::make_unique<const TorchFile>(TorchFile::of_bytes(path, bytes_.back()->bytes())));
    return *opened_.back();
  }
  OpenFiles take() { return std::move(opened_); }

 private:
  std::vector<std::unique_ptr<ZipBytes>> bytes_;
  OpenFiles opened_;
};

std::string list(const std::vector<std::string>& values) {
  std::string made = "](";
  for (const std::string& value : values) made += value;
  return made + "e";
}
std::string by_number(const std::vector<std::string>& values) {
  std::string made = "}(";
  for (size_t i = 0; i < values.size(); ++i) made += integer(static_cast<int32_t>(i)) + values[i];
  return made + "u";
}
std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::string flat(const std::string& id, int32_t numel) {
  return tensor(storage("FloatStorage", id, numel), {.shape = {numel}, .strides = {1}});
}

std::string scaler(const std::string& name, const Items& state) {
  return global("deepspeed.runtime.fp16.loss_scaler", name) + ")\x81" + dict(state) + "b";
}

// A rank of stage 1 with one group: storages "w" and "m" of `numel` elements.
Items stage_1(int32_t numel, int32_t partitions, int32_t step = 3) {
  return {{"single_partition_of_fp32_groups", list({flat("w", numel)})},
          {"base_optimizer_state",
           dict({{"state",
                  by_number({dict({{"step", integer(step)}, {"exp_avg", flat("m", numel)}})})}})},
          {"zero_stage", integer(1)},
          {"partition_count", integer(partitions)}};
}
Items with(Items items, const std::string& key, const std::string& value) {
  std::erase_if(items, [&](const auto& item) { return item.first == key; });
  if (!value.empty()) items.emplace_back(key, value);
  return items;
}
std::string optimizer_of(const Items& items) {
  return dict({{"optimizer_state_dict", dict(items)}, {"ds_version", text("0.19.8")}});
}
Items storages_of(const std::vector<float>& weights, const std::vector<float>& moments) {
  return {{"w", bytes_of(weights)}, {"m", bytes_of(moments)}};
}
const std::vector<float> kFour = {1, 2, 3, 4};

OptimizerStates states_of(const Items& items) {
  MadeFiles files;
  return optimizer_states_of(files.add("/o.pt", optimizer_of(items), storages_of(kFour, kFour)));
}

// A model of a [2, 1], b [3] in one group, at step 3.
Items model_items() {
  return {{"global_steps", integer(3)},
          {"skipped_steps", integer(0)},
          {"global_samples", integer(12)},
          {"dp_world_size", integer(2)},
          {"ds_version", text("0.19.8")},
          {"module", dict({})},
          {"buffer_names", list({})},
          {"shared_params", dict({{"head", text("a")}})},
          {"param_shapes", list({dict({{"a", integers(std::vector<int32_t>{2, 1})},
                                       {"b", integers(std::vector<int32_t>{3})}})})}};
}

std::vector<float> values_of(const SavedTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  read(tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_CASE("what a rank's optimizer file says is read", "[checkpoint]") {
  const OptimizerStates states = states_of(stage_1(4, 2));
  CHECK(states.stage == 1);
  CHECK(states.partitions == 2);
  CHECK(states.version == "0.19.8");
  REQUIRE(states.groups.size() == 1);
  CHECK(states.groups[0].updates == 3);
  CHECK(states.groups[0].slots.size() == 2);
  CHECK_FALSE(states.scaler);
  CHECK(states_of(with(stage_1(4, 2), "zero_stage", "")).stage == 1);
  const std::string enumeration =
      global("deepspeed.runtime.zero.config", "ZeroStageEnum") + "(" + integer(2) + "tR";
  CHECK(states_of(with(stage_1(4, 2), "zero_stage", enumeration)).stage == 2);
  const std::string counts = list({integer(2), integer(2)});
  CHECK(states_of(with(stage_1(4, 2), "partition_count", counts)).partitions == 2);
}

TEST_CASE("a loss scaler is what it was", "[checkpoint]") {
  const auto read_scaler = [](const std::string& value) {
    return states_of(with(stage_1(4, 2), "loss_scaler", value)).scaler;
  };
  const Items state = {{"cur_scale", integer(256)},
                       {"cur_iter", integer(9)},
                       {"last_overflow_iter", integer(4)},
                       {"cur_hysteresis", integer(2)}};
  SavedScaler expected{.is_dynamic = true, .scale = 256, .iterations = 9, .last_overflow = 4};
  expected.hysteresis = 2;
  CHECK(read_scaler(scaler("DynamicLossScaler", state)) == expected);
  CHECK_FALSE(read_scaler(scaler("LossScaler", {{"cur_scale", integer(1)}})));
  const auto constant = read_scaler(scaler("LossScaler", {{"cur_scale", integer(128)}}));
  REQUIRE(constant);
  CHECK(constant->scale == 128);
  CHECK_FALSE(constant->is_dynamic);
  CHECK_THROWS_WITH(read_scaler(scaler("DynamicLossScaler", with(state, "cur_iter", ""))),
                    Catch::Contains("/o.pt: loss_scaler.cur_iter is missing"));
  CHECK_THROWS_AS(read_scaler(scaler("LossScaler", {{"cur_scale", integer(0)}})), DataError);
  CHECK_THROWS_AS(read_scaler(integer(5)), DataError);
}

TEST_CASE("groups with several rates have none in common", "[checkpoint]") {
  const auto rate_with = [](const std::vector<Items>& groups) {
    std::vector<std::string> made;
    for (const Items& group : groups) made.push_back(dict(group));
    const std::string state = by_number({dict({{"step", integer(3)}, {"exp_avg", flat("m", 4)}})});
    return states_of(with(stage_1(4, 2), "base_optimizer_state",
                          dict({{"state", state}, {"param_groups", list(made)}})))
        .rate;
  };
  CHECK_FALSE(states_of(stage_1(4, 2)).rate);
  CHECK(rate_with({{{"lr", integer(2)}}}) == 2);
  CHECK(rate_with({{{"lr", integer(2)}}, {{"lr", integer(2)}}}) == 2);
  CHECK_FALSE(rate_with({{{"lr", integer(2)}}, {{"lr", integer(3)}}}));
  CHECK_FALSE(rate_with({{{"lr", integer(2)}}, {{"betas", integer(3)}}}));
  CHECK_FALSE(rate_with({{{"lr", text("2")}}}));
}

TEST_CASE("members of another kind are named with the file", "[checkpoint]") {
  const Items good = stage_1(4, 2);
  const auto refused = [&](const std::string& key, const std::string& value) {
    CAPTURE(key);
    CHECK_THROWS_WITH(states_of(with(good, key, value)),
                      Catch::Contains("/o.pt") && Catch::Contains(key));
  };
  refused("partition_count", "");
  refused("partition_count", text("two"));
  refused("partition_count", list({}));
  refused("zero_stage", text("one"));
  refused("single_partition_of_fp32_groups", "");
  refused("single_partition_of_fp32_groups", list({integer(1)}));
  refused("base_optimizer_state", integer(1));
  refused("param_alignment_paddings", list({integer(1)}));
  CHECK_THROWS_AS(states_of(with(good, "partition_count", list({integer(2), integer(1)}))),
                  Unsupported);
  CHECK_THROWS_AS(states_of(with(good, "base_optimizer_state", list({}))), Unsupported);
  CHECK_THROWS_AS(states_of(stage_1(4, 2, -1)), DataError);
  MadeFiles files;
  CHECK_THROWS_AS(optimizer_states_of(files.add("/o.pt", list({}))), DataError);
}

TEST_CASE("what a model's file says is read, and what it lacks is named", "[checkpoint]") {
  MadeFiles files;
  Items items = with(model_items(), "lr_scheduler", dict({{"last_batch_iteration", integer(2)}}));
  const ModelStates states = model_states_of(files.add("/m.pt", dict(items)));
  REQUIRE(states.groups.size() == 1);
  CHECK(states.groups[0][1].name == "b");
  CHECK(states.groups[0][0].shape == std::vector<int64_t>{2, 1});
  CHECK(states.progress.scheduler_steps == 3);
  CHECK(states.progress.samples == 12);
  CHECK(states.shared.size() == 1);
  for (const char* key : {"global_steps", "param_shapes", "shared_params", "skipped_steps"}) {
    CAPTURE(key);
    CHECK_THROWS_WITH(model_states_of(files.add("/m.pt", dict(with(items, key, text("x"))))),
                      Catch::Contains(key));
  }
  CHECK_THROWS_AS(
      model_states_of(files.add("/m.pt", dict(with(items, "skipped_steps", integer(4))))),
      DataError);
}

TEST_CASE("settings of the optimizer and the scheduler are read in words", "[checkpoint]") {
  MadeFiles files;
  const std::string half("G\x3f\xe0\0\0\0\0\0\0", 9), yes = "\x88";
  const std::string params = dict({{"lr", half},
                                   {"betas", list({half, integer(1)})},
                                   {"torch_adam", yes},
                                   {"groups", list({dict({})})},
                                   {"more", dict({})}});
  const std::string config =
      dict({{"optimizer", dict({{"type", text("AdamW")}, {"params", params}})},
            {"scheduler", dict({{"type", text("WarmupLR")}})},
            {"fp16", dict({{"enabled", yes}})}});
  const auto settings_with = [&](const std::string& saved) {
    return model_states_of(files.add("/m.pt", dict(with(model_items(), "ds_config", saved))))
        .progress.settings;
  };
  CHECK(settings_with(config) ==
        std::map<std::string, std::string>{{"optimizer.type", "AdamW"},
                                           {"optimizer.params.lr", "0.5"},
                                           {"optimizer.params.betas", "[0.5, 1]"},
                                           {"optimizer.params.torch_adam", "true"},
                                           {"scheduler.type", "WarmupLR"}});
  CHECK(settings_with(text("ds_config.json")).empty());
  CHECK(settings_with(dict({{"optimizer", integer(1)}})).empty());
}

// Two ranks of stage 1: a and b over both partitions, of three elements each.
struct TwoRanks {
  MadeFiles models, optimizers;
  TwoRanks(const Items& first, const Items& second, const Items& model = model_items()) {
    models.add("/m.pt", dict(model));
    optimizers.add("/0.pt", optimizer_of(first), storages_of({1, 2, 3}, {7, 8, 9}));
    optimizers.add("/1.pt", optimizer_of(second), storages_of({4, 5, 0}, {6, 5, 0}));
  }
};

TEST_CASE("parameters of two ranks come together", "[checkpoint]") {
  TwoRanks two(stage_1(3, 2), stage_1(3, 2));
  const OpenFiles models = two.models.take(), optimizers = two.optimizers.take();
  const SavedTable table = zero_table(models, optimizers);
  CHECK(values_of(table.weights.at("a")) == std::vector<float>{1, 2});
  CHECK(values_of(table.weights.at("b")) == std::vector<float>{3, 4, 5});
  CHECK(values_of(table.weights.at("head")) == std::vector<float>{1, 2});
  CHECK(values_of(table.slots.at("exp_avg").at("b")) == std::vector<float>{9, 6, 5});
  CHECK_FALSE(table.slots.at("exp_avg").contains("head"));
  CHECK(table.progress.updates == 3);
}

TEST_CASE("padding that aligns parameters is passed over", "[checkpoint]") {
  const Items rank =
      with(stage_1(3, 2), "param_alignment_paddings", list({list({integer(1), integer(0)})}));
  TwoRanks two(rank, rank);
  const OpenFiles models = two.models.take(), optimizers = two.optimizers.take();
  const SavedTable table = zero_table(models, optimizers);
  CHECK(values_of(table.weights.at("b")) == std::vector<float>{4, 5, 0});
  CHECK(values_of(table.slots.at("exp_avg").at("b")) == std::vector<float>{6, 5, 0});
}

TEST_CASE("ranks that do not belong together are named", "[checkpoint]") {
  const auto refusal = [](TwoRanks two) -> std::string {
    const OpenFiles models = two.models.take(), optimizers = two.optimizers.take();
    try {
      zero_table(models, optimizers);
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  };
  const Items good = stage_1(3, 2);
  CHECK_THAT(refusal({good, stage_1(3, 2, 4)}),
             Catch::Contains("/1.pt: number of updates of group 0 is 4, but 3 in /0.pt"));
  CHECK_THAT(refusal({good, with(good, "zero_stage", integer(2))}), Catch::Contains("/1.pt"));
  CHECK_THAT(refusal({good, stage_1(3, 3)}), Catch::Contains("partition_count is 3"));
  CHECK_THAT(refusal({good, with(good, "single_partition_of_fp32_groups", list({}))}),
             Catch::Contains("/1.pt"));
  const Items bare = with(good, "base_optimizer_state",
                          dict({{"state", by_number({dict({{"step", integer(3)}})})}}));
  CHECK_THAT(refusal({good, bare}), Catch::Contains("/1.pt: group 0 has no exp_avg"));
  const Items paddings = with(good, "param_alignment_paddings", list({list({integer(1)})}));
  CHECK_THAT(refusal({paddings, paddings}), Catch::Contains("param_alignment_paddings"));
  CHECK_THAT(refusal({good, good, with(model_items(), "ds_version", text("0.14.0"))}),
             Catch::Contains("by DeepSpeed 0.19.8") && Catch::Contains("0.14.0"));
  const std::string long_b = list({dict({{"b", integers(std::vector<int32_t>{7})}})});
  CHECK_THAT(refusal({good, good, with(model_items(), "param_shapes", long_b)}),
             Catch::Contains("parameter b needs 7 elements"));
  CHECK_THAT(refusal({good, good, with(model_items(), "param_shapes", "")}),
             Catch::Contains("/m.pt: param_shapes is missing"));
}

TEST_CASE("without ZeRO a parameter's state goes by its number", "[checkpoint]") {
  const auto matrix = [](const std::string& id) {
    return tensor(storage("FloatStorage", id, 2), {.shape = {2, 1}, .strides = {1, 1}});
  };
  const auto model = [&](const std::string& states, int groups) {
    Items items = with(model_items(), "param_shapes", "");
    items = with(items, "shared_params", "");
    items = with(items, "module",
                 dict({{"a", matrix("w")},
                       {"mask", flat("n", 1)},
                       {"b", flat("v", 2)},
                       {"head", matrix("w")}}));
    items = with(items, "buffer_names", list({text("mask")}));
    const std::vector<std::string> all(static_cast<size_t>(groups), dict({}));
    return dict(with(items, "optimizer", dict({{"state", states}, {"param_groups", list(all)}})));
  };
  const Items storages = {{"w", bytes_of({1, 2})},
                          {"v", bytes_of({3, 4})},
                          {"n", bytes_of({9})},
                          {"m", bytes_of({5, 6})}};
  const std::string of_a = dict({{"step", integer(3)}, {"exp_avg", matrix("m")}});
  const std::string of_b = dict({{"step", integer(3)}, {"exp_avg", flat("m", 2)}});
  MadeFiles files;
  const SavedTable table =
      plain_table(files.add("/m.pt", model(by_number({of_a, of_b}), 1), storages));
  CHECK(values_of(table.slots.at("exp_avg").at("b")) == std::vector<float>{5, 6});
  CHECK(table.progress.updates == 3);
  CHECK(table.parameters.back().kind == SavedParameter::Kind::kShared);
  CHECK(table.why_no_slots.empty());
  for (const std::string& unclear : {model(by_number({of_a}), 1), model(by_number({of_b, of_a}), 1),
                                     model(by_number({of_a, of_b}), 2)}) {
    const SavedTable other = plain_table(files.add("/m.pt", unclear, storages));
    CHECK_THAT(other.why_no_slots, Catch::Contains("nothing says whose they are"));
    CHECK(other.slots.empty());
    CHECK(values_of(other.weights.at("b")) == std::vector<float>{3, 4});
  }
  CHECK_THROWS_AS(plain_table(files.add("/m.pt", dict(model_items()))), InputMissing);
}

TEST_CASE("a universal folder's tensors have their parameters' shapes", "[checkpoint]") {
  MadeFiles files;
  const TorchFile& model = files.add("/c/m.pt", dict(model_items()));
  const TorchFile& a = files.add("/c/zero/a/fp32.pt", flat("w", 2), {{"w", bytes_of({1, 2})}});
  const TorchFile& b =
      files.add("/c/zero/b/fp32.pt", dict({{"param", flat("w", 3)}}), {{"w", bytes_of({3, 4, 5})}});
  const TorchFile& step = files.add("/c/zero/b/step.pt", integer(3));
  const TorchFile& another = files.add("/c/zero/b/step.pt", integer(4));
  const TorchFile& head =
      files.add("/c/zero/head/fp32.pt", flat("w", 2), {{"w", bytes_of({8, 8})}});
  const std::vector<UniversalParameter> parameters = {
      {"a", {{"fp32", &a}, {"exp_avg", &a}, {"step", &step}}},
      {"b", {{"fp32", &b}, {"exp_avg", &b}, {"step", &step}}},
      {"head", {{"fp32", &head}}}};
  const SavedTable table = universal_table(model, parameters);
  CHECK(table.weights.at("a").shape == std::vector<int64_t>{2, 1});
  CHECK(values_of(table.weights.at("b")) == std::vector<float>{3, 4, 5});
  CHECK(values_of(table.weights.at("head")) == std::vector<float>{1, 2});
  CHECK(table.slots.at("exp_avg").size() == 2);
  CHECK(table.progress.updates == 3);
  const std::vector<UniversalParameter> mixed = {{"a", {{"fp32", &a}, {"step", &step}}},
                                                 {"b", {{"fp32", &b}, {"step", &another}}}};
  CHECK_THROWS_AS(universal_table(model, mixed), DataError);
  const std::vector<UniversalParameter> short_b = {{"b", {{"fp32", &a}}}};
  CHECK_THROWS_AS(universal_table(model, short_b), DataError);
  const std::vector<UniversalParameter> bare = {{"a", {{"exp_avg", &a}}}};
  CHECK_THROWS_WITH(universal_table(model, bare), Catch::Contains("/c/zero/a/fp32.pt: is missing"));
}

}  // namespace
}  // namespace ds::deepspeed
