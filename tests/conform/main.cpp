// conform AREA < input.json > output.json answers one conformance case. With --batch it reads one
// object per line, {"area": NAME, "input": {...}} (or bare inputs when AREA is given), and answers
// one line each. The table below is all this file knows; the work is in <area>.cpp, by the
// product's own functions.
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <span>
#include <vector>

#include "tests/conform/areas.h"

namespace ds::conform {

std::string to_text(const rapidjson::Value& answer) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  answer.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string error_text(std::string_view message) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.StartObject();
  writer.Key("error");
  writer.String(message.data(), static_cast<rapidjson::SizeType>(message.size()));
  writer.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

namespace {

// One line per area; see areas.h.
const std::vector<AreaEntry> kAreas = {
    {"batch_config", batch_config},
    {"checkpoint", checkpoint},
    {"config", config},
    {"curriculum", curriculum},
    {"elasticity", elasticity},
    {"flops", flops},
    {"hostfile", hostfile},
    {"indexed_dataset", indexed_dataset},
    {"launcher", launcher},
    {"loss_scale", loss_scale},
    {"lr_schedules", lr_schedules},
    {"moe_gating", moe_gating},
    {"onebit", onebit},
    {"optimizer", optimizer},
    {"partition", partition},
    {"pipe_schedule", pipe_schedule},
    {"progressive_layer_drop", progressive_layer_drop},
    {"quantizer", quantizer},
    {"random_ltd", random_ltd},
    {"sparse_attention", sparse_attention},
    {"sparse_tensor", sparse_tensor},
    {"topology", topology},
    {"zero_partition", zero_partition},
};

constexpr unsigned kParse = rapidjson::kParseFullPrecisionFlag | rapidjson::kParseNanAndInfFlag |
                            rapidjson::kParseIterativeFlag;

std::string answer(std::string_view area, const rapidjson::Value& input) {
  for (const AreaEntry& entry : kAreas) {
    if (entry.name != area) continue;
    try {
      return entry.run(input);
    } catch (const std::exception& error) {
      return error_text(error.what());
    }
  }
  return error_text("conform: unknown area " + std::string(area));
}

std::string answer_text(std::string_view area, const std::string& text) {
  rapidjson::Document document;
  document.Parse<kParse>(text.c_str(), text.size());
  if (document.HasParseError() || !document.IsObject()) {
    return error_text("conform: the input is not a JSON object");
  }
  if (!area.empty()) return answer(area, document);
  if (!document.HasMember("area") || !document["area"].IsString() || !document.HasMember("input")) {
    return error_text("conform --batch: a line needs \"area\" and \"input\"");
  }
  return answer(document["area"].GetString(), document["input"]);
}

int run_batch(std::string_view area) {
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) std::cout << answer_text(area, line) << '\n';
  }
  return 0;
}

int run(std::span<char*> args) {
  if (args.size() >= 2 && std::string_view(args[1]) == "--batch") {
    return run_batch(args.size() > 2 ? args[2] : "");
  }
  if (args.size() != 2) {
    std::fputs("usage: conform AREA < input.json   or   conform --batch [AREA] < lines\n", stderr);
    return 2;
  }
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  std::cout << answer_text(args[1], text) << '\n';
  return 0;
}

}  // namespace
}  // namespace ds::conform

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return ds::conform::run({argv, static_cast<size_t>(argc)});
}
