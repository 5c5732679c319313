// `dslaunch inspect FILE`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct InspectArgs {
  std::string file;  // of weights or a checkpoint: safetensors, or of torch.save
  bool json = false;
};

void describe_inspect(VerbApp& app, InspectArgs& values);

}  // namespace ds
