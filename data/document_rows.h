// This is where documents end within a sample (pure), and what follows for its rows: which keys
// attention sees, where positions begin anew, and which targets count, as Megatron-LM's
// --reset-attention-mask, --reset-position-ids and --eod-mask-loss have it. A token ends a
// document, and belongs to it; a sample begins wherever it was cut.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace ds {

struct DocumentRules {
  std::optional<int32_t> end{};  // the token that ends documents; nothing: nobody asks
  // What follows that token has another document behind it, and is not to be told from it.
  bool masks_loss = false;
};

// positions [T]: of each token in its document.
void write_document_positions(std::span<const int32_t> tokens, int32_t end,
                              std::span<int32_t> positions);
// ranges [T, 2]: a query of a token sees the positions [begin, end) of its sample, which are those
// of its document.
void write_document_ranges(std::span<const int32_t> tokens, int32_t end, std::span<int32_t> ranges);
// Makes the targets of tokens that end documents negative, which is: no loss.
void ignore_targets_of_ends(std::span<const int32_t> tokens, int32_t end,
                            std::span<int32_t> targets);

}  // namespace ds
