#include "cli/run.h"

int main(int argc, char** argv) {
  return cohort::run(argc, argv);
}
