// `dslaunch env`
#pragma once

namespace ds {

class VerbApp;

struct EnvOptions {
  bool json = false;
};

void describe_env(VerbApp& app, EnvOptions& options);

}  // namespace ds
