// The areas that the `conform` program answers: one function each, one JSON object in, one JSON
// text out. An area function only translates: it reads the case's input, calls the product's own
// functions and writes their results. It may throw; main turns the exception's text into {"error":
// "..."}.
#pragma once

#include <rapidjson/document.h>

#include <string>
#include <string_view>

namespace ds::conform {

using Area = std::string (*)(const rapidjson::Value& input);

struct AreaEntry {
  std::string_view name;
  Area run;
};

// Serialises an answer; NaN and infinities are not JSON: write them as the texts "nan", "inf",
// "-inf".
std::string to_text(const rapidjson::Value& answer);

// {"error": message} as text, for failures that an area wants to name itself.
std::string error_text(std::string_view message);

// --- one declaration per area, in the order of the table in main.cpp
// -------------------------------------

std::string indexed_dataset(const rapidjson::Value& input);
std::string lr_schedules(const rapidjson::Value& input);
std::string loss_scale(const rapidjson::Value& input);
std::string elasticity(const rapidjson::Value& input);
std::string config(const rapidjson::Value& input);
std::string batch_config(const rapidjson::Value& input);
std::string topology(const rapidjson::Value& input);
std::string curriculum(const rapidjson::Value& input);
std::string random_ltd(const rapidjson::Value& input);
std::string progressive_layer_drop(const rapidjson::Value& input);
std::string sparse_tensor(const rapidjson::Value& input);
std::string quantizer(const rapidjson::Value& input);
std::string onebit(const rapidjson::Value& input);
std::string pipe_schedule(const rapidjson::Value& input);
std::string partition(const rapidjson::Value& input);
std::string zero_partition(const rapidjson::Value& input);
std::string sparse_attention(const rapidjson::Value& input);
std::string moe_gating(const rapidjson::Value& input);
std::string flops(const rapidjson::Value& input);
std::string checkpoint(const rapidjson::Value& input);
std::string optimizer(const rapidjson::Value& input);
std::string hostfile(const rapidjson::Value& input);
std::string launcher(const rapidjson::Value& input);

}  // namespace ds::conform
