// The networks of this library, one function for each file that defines some.
#pragma once

#include "models/network.h"

namespace cohort {

void addMnistNetworks(NetworkRegistry& registry);          // mnist-fc, mnist-cnn
void addCifarNetworks(NetworkRegistry& registry);          // cifar-cnn
void addCifarResidualNetworks(NetworkRegistry& registry);  // resnet20 … resnet110, any 6n + 2
void addAlexNets(NetworkRegistry& registry);               // alexnet, alexnet-lrn
void addOverFeat(NetworkRegistry& registry);               // overfeat
void addVggNetworks(NetworkRegistry& registry);            // vgg11, vgg16, vgg19
void addGoogLeNet(NetworkRegistry& registry);              // googlenet
void addResNet50(NetworkRegistry& registry);               // resnet50

}  // namespace cohort
