// A GPT-2 folder whose model says the same about every position: the logit of each byte is what a
// table says. So what verbs make of a model can be worked out on paper.
#pragma once

#include <array>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "model/hf/safetensors.h"
#include "tests/support/files/temporary_directory.h"

namespace ds::testing {

class TableModel {
 public:
  static constexpr int64_t kVocabulary = 256;
  static constexpr int64_t kPositions = 8;
  using Logits = std::array<double, kVocabulary>;

  // `more`: members of config.json, each followed by a comma.
  explicit TableModel(const Logits& logits, const std::string& more = "") : logits_(logits) {
    std::ofstream(here_.path() / "config.json")
        << R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", )" << more
        << R"("n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 256})";
    add("wte.weight", {kVocabulary, kWidth});
    for (int64_t id = 0; id < kVocabulary; ++id)
      values_.back()[static_cast<size_t>(id * kWidth)] =
          static_cast<float>(logits[static_cast<size_t>(id)]);
    add("wpe.weight", {kPositions, kWidth});
    for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
      add(std::string(norm) + ".weight", {kWidth});
      add(std::string(norm) + ".bias", {kWidth});
    }
    values_.back()[0] = 1;  // what the last norm gives whatever comes in: it takes a row's first
    add("h.0.attn.c_attn.weight", {kWidth, 3 * kWidth});
    add("h.0.attn.c_attn.bias", {3 * kWidth});
    add("h.0.attn.c_proj.weight", {kWidth, kWidth});
    add("h.0.attn.c_proj.bias", {kWidth});
    add("h.0.mlp.c_fc.weight", {kWidth, 4 * kWidth});
    add("h.0.mlp.c_fc.bias", {4 * kWidth});
    add("h.0.mlp.c_proj.weight", {4 * kWidth, kWidth});
    add("h.0.mlp.c_proj.bias", {kWidth});
    for (size_t i = 0; i < values_.size(); ++i)
      tensors_[i].data = std::as_bytes(std::span(values_[i]));
    RealFileSystem files;
    write_safetensors(files, folder() + "/model.safetensors", tensors_);
  }

  std::string folder() const { return here_.path().string(); }
  std::string add_file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = here_.path() / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  // Returns the nats of this byte, wherever it stands.
  double nats_of(unsigned char byte) const {
    double sum = 0;
    for (const double logit : logits_) sum += std::exp(logit);
    return std::log(sum) - logits_[byte];
  }

 private:
  static constexpr int64_t kWidth = 8;
  void add(const std::string& name, const Shape& shape) {
    values_.emplace_back(static_cast<size_t>(shape.numel()));
    SafetensorsTensor tensor;
    tensor.name = "transformer." + name;
    tensor.dtype = DType::kF32;
    tensor.shape = shape;
    tensors_.push_back(std::move(tensor));
  }

  const Logits logits_;
  TemporaryDirectory here_;
  std::vector<std::vector<float>> values_;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace ds::testing
