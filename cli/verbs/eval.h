// `dslaunch eval SOURCE --data FILES`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

// Whether eval makes vectors of texts, instead of telling how likely texts are, and how.
struct EmbedArgs {
  bool embeds = false;
  std::string texts{};      // a file of JSON lines; "-": standard input
  bool lines = false;       // each of its lines is a text
  std::string pooling{};    // mean, cls or last; empty: as the folder says, else mean
  std::string normalize{};  // yes: to length 1; no; empty: as the folder says, else no
};

struct EvalArgs {
  std::string source;                // a checkpoint tag, a run directory, or a Hugging Face folder
  std::optional<std::string> base;   // of adapters: the folder of the model
  std::vector<std::string> data;     // all that data.train may name
  std::optional<std::string> field;  // of JSON lines: the text; none: "text", or the run's
  std::string tokenizer;             // empty: the model's own
  std::optional<int64_t> length;     // tokens of a window; none: the model's positions
  std::optional<int64_t> stride;     // none: no overlap
  int64_t batch = 1;                 // windows at a time
  std::string dtype = "fp32";
  std::string device = "cpu";  // or cuda, cuda:N
  int threads = 0;             // 0: one per core
  bool json = false;
  // The fields of records with classes; none: as the run of the model says, or the defaults of its
  // configuration.
  std::optional<std::string> text_pair, label;
  EmbedArgs embed;
};

void describe_eval(VerbApp& app, EvalArgs& values);

}  // namespace ds
