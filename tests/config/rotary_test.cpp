// Rotary frequencies against those of transformers (tests/golden/rotary), and what config.json says
// of them.
#include "config/families/spec/rotary.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <fstream>
#include <sstream>

#include "config/families/hf_config.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

std::string text_of(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

std::string llama_with(const std::string& rope) {
  return R"({"model_type": "llama", "max_position_embeddings": 64, )" + rope + "}";
}

}  // namespace

TEST_CASE("scaled rotary frequencies are those of transformers", "[config]") {
  std::ifstream in(testing::source_directory() + "/tests/golden/rotary/frequencies.json");
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document cases;
  cases.Parse(text.str().c_str());
  REQUIRE(cases.IsArray());
  REQUIRE(cases.Size() == 12);
  for (const auto& one : cases.GetArray()) {
    const ModelConfig model = parse_hf_config(text_of(one["config"]), one["name"].GetString());
    CAPTURE(one["name"].GetString());
    const RotarySpec rotary = transformer_spec(model).rotary.value();
    CHECK(rotary_factor(rotary) == Approx(one["factor"].GetDouble()).epsilon(1e-12));
    const std::vector<float> got = rotary_frequencies(rotary, dimensions(model).head_dim);
    REQUIRE(got.size() == one["frequencies"].Size());
    for (size_t j = 0; j < got.size(); ++j) {
      const double wanted = one["frequencies"][static_cast<rapidjson::SizeType>(j)].GetDouble();
      CHECK(got[j] == Approx(wanted).epsilon(4e-7));  // torch's powers have an ulp of their own
    }
    // What is written says it again.
    const ModelConfig again = parse_hf_config(format_hf_config(model, DType::kF32), "again");
    CHECK(rotary_frequencies(transformer_spec(again).rotary.value(), dimensions(again).head_dim) ==
          got);
  }
}

TEST_CASE("a share of a head has fewer frequencies", "[config]") {
  CHECK(rotary_width({.share = 0.25}, 64) == 16);
  CHECK(rotary_width({.share = 0.4}, 80) == 32);
  CHECK(rotary_width({.share = 0.5}, 6) == 2);
  const std::vector<float> quarter = rotary_frequencies({.share = 0.25}, 64);
  CHECK(quarter == rotary_frequencies({}, 16));
  CHECK(rotary_factor({}) == 1);
}

TEST_CASE("rope_scaling is read by either name, and what is not known is refused", "[model]") {
  const auto scaling = [](const std::string& rope) {
    return std::get<LlamaConfig>(parse_hf_config(llama_with(rope), "c")).rope_scaling;
  };
  const auto refusal = [&](const std::string& rope) -> std::string {
    try {
      scaling(rope);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string llama3 =
      R"("factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
         "original_max_position_embeddings": 32)";
  const auto old = scaling(R"("rope_scaling": {"type": "llama3", )" + llama3 + "}");
  REQUIRE(old);
  CHECK(old->rope_type == "llama3");
  CHECK(old->original_max_position_embeddings == 32);
  const auto now =
      scaling(R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, )" + llama3 + "}");
  REQUIRE(now);
  CHECK(now->factor == 8);
  CHECK(*scaling(R"("rope_scaling": {"type": "llama3", )" + llama3 +
                 R"(}, "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, )" + llama3 +
                 "}") == *now);
  CHECK_THAT(refusal(R"("rope_scaling": {"rope_type": "linear", "factor": 4},
                        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4})"),
             Catch::Contains("two names of one thing, but differ"));
  // A silent size is the model's, also where it is written and read again.
  const std::string silent = R"("factor": 8, "low_freq_factor": 1, "high_freq_factor": 4)";
  const ModelConfig model = parse_hf_config(
      llama_with(R"("rope_scaling": {"rope_type": "llama3", )" + silent + "}"), "c");
  CHECK(format_hf_config(parse_hf_config(format_hf_config(model, DType::kF32), "c"), DType::kF32) ==
        format_hf_config(model, DType::kF32));
  CHECK(std::get<Llama3Scaling>(transformer_spec(model).rotary->scaling).original_positions == 64);
  const auto theta = [](const std::string& rope) {
    return transformer_spec(parse_hf_config(llama_with(rope), "c")).rotary->theta;
  };
  CHECK(theta(R"("rope_scaling": {"rope_type": "linear", "factor": 2, "rope_theta": 500000})") ==
        500000);
  CHECK_THAT(refusal(R"("rope_theta": 7, "rope_scaling": {"rope_type": "linear", "factor": 2,
                        "rope_theta": 500000})"),
             Catch::Contains("\"rope_theta\" is 7, but that of \"rope_scaling\" is 500000"));
  const std::string yarn = R"("rope_scaling": {"type": "yarn", "factor": 2)";
  CHECK(scaling(R"("original_max_position_embeddings": 16, )" + yarn + "}")
            ->original_max_position_embeddings == 16);
  CHECK_THAT(refusal(R"("original_max_position_embeddings": 16, )" + yarn +
                     R"(, "original_max_position_embeddings": 32})"),
             Catch::Contains("is 32 in one place and 16 in another"));
  for (const char* const size : {"1e30", "16.5", "0", "-4"}) {
    CHECK_THAT(refusal(yarn + R"(, "original_max_position_embeddings": )" + size + "}"),
               Catch::Contains("expected a number of positions"));
  }
  CHECK(refusal(R"("rope_scaling": {"rope_type": "linear", "factor": 2,
                   "partial_rotary_factor": 0.5})") ==
        "c: \"partial_rotary_factor\" = 0.5 is not supported");
  CHECK_FALSE(scaling(R"("rope_scaling": null)"));
  CHECK_FALSE(scaling(R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e4})"));
  CHECK(scaling(R"("rope_scaling": {"rope_type": "dynamic", "factor": 2})"));
  CHECK(refusal(R"("rope_scaling": {"rope_type": "proportional", "factor": 2})") ==
        "c: a \"rope_scaling\" of type \"proportional\" is not supported");
  CHECK_THAT(refusal(R"("rope_scaling": {"rope_type": "longrope", "factor": 2})"),
             Catch::Contains("of type \"longrope\" has no \"short_factor\""));
  CHECK(refusal(R"("rope_scaling": {"rope_type": "linear", "factor": 2, "mscale": 1})") ==
        "c: \"mscale\" in a \"rope_scaling\" of type \"linear\" is not supported");
  CHECK_THAT(refusal(R"("rope_scaling": {"rope_type": "longrope", "short_mscale": 1.2})"),
             Catch::Contains("\"short_mscale\" in a \"rope_scaling\" of type \"longrope\""));
  CHECK_THAT(refusal(yarn + R"(, "mscale": -1})"), Catch::Contains("rope_scaling.mscale: got -1"));
  CHECK_THAT(refusal(yarn + R"(, "truncate": "no"})"),
             Catch::Contains("\"truncate\" in \"rope_scaling\" must be true or false"));
  CHECK(scaling(yarn + "}")->truncate == std::nullopt);
  CHECK(scaling(yarn + R"(, "truncate": null})")->truncate == false);
  CHECK(refusal(R"("rope_scaling": {"rope_type": "linear"})") ==
        "c: a \"rope_scaling\" of type \"linear\" has no \"factor\"");
  CHECK(refusal(R"("rope_scaling": {"rope_type": "llama3", "factor": 8})") ==
        "c: a \"rope_scaling\" of type \"llama3\" has no \"low_freq_factor\"");
  CHECK(refusal(R"("rope_scaling": {"factor": 8})") ==
        "c: \"factor\" in a \"rope_scaling\" of type \"default\" is not supported");
  CHECK_THAT(refusal(R"("rope_scaling": {"rope_type": "linear", "factor": 0.5})"),
             Catch::Contains("rope_scaling.factor: got 0.5"));
  CHECK_THAT(refusal(R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                        "high_freq_factor": 4, "original_max_position_embeddings": 32})"),
             Catch::Contains("rope_scaling.high_freq_factor: 4, expected more than"));
}

}  // namespace ds
