// Decoder: the frame all decoder-only language models share. Embedding, a stack of blocks that add
// to a residual stream, a final norm, and the loss head fused with the output projection. A family
// brings its blocks; the frame brings loss, backward and generation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/functions.h"
#include "model/language_model.h"

namespace ds {

// Where the rows of [N, C] values come from: `batch` sequences of `length` positions, row b *
// length + t holding position first_position + t.
struct SequenceRows {
  int64_t batch = 0;
  int64_t length = 0;
  int64_t first_position = 0;
};

// The residual stream between blocks is sum + branch; the next norm adds them in passing.
struct Residual {
  Var sum;
  Var branch;  // undefined at the start
};

class Block {
 public:
  // `path`: "transformer.h.3", as parameters of it are called.
  explicit Block(std::string path) : path_(std::move(path)) {}
  virtual ~Block() = default;
  const std::string& path() const { return path_; }
  virtual Residual forward(Context& context, const SequenceRows& rows, Residual in) const = 0;

 private:
  std::string path_;
};

class Decoder final : public LanguageModel {
 public:
  struct Parts {
    ModelConfig config;
    DType dtype = DType::kF32;
    EmbeddingSpec embedding;
    DropoutSpec embedding_dropout;
    std::vector<std::unique_ptr<Block>> blocks;
    NormSpec final_norm;
    ParamId head = kNoParam;  // [V, C]; the embedding's table when tied
  };
  explicit Decoder(Parts parts);

  const ModelConfig& config() const override { return parts_.config; }
  DType dtype() const override { return parts_.dtype; }
  Tensor loss(Context& context, const Tensor& tokens, const Tensor& targets,
              float grad_scale) override;
  Tensor next_logits(Context& context, const Tensor& tokens) override;

 private:
  void check_tokens(const Tensor& tokens) const;
  Residual run_blocks(Context& context, const Tensor& tokens, const SequenceRows& rows) const;

  Parts parts_;
  ModelDimensions dims_;
};

}  // namespace ds
