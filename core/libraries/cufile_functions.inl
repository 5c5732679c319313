// The functions of cuFile that reading and writing files from GPUs call.
// DS_FUNCTION(name) is what becomes of each.
DS_FUNCTION(cuFileDriverOpen)
DS_FUNCTION(cuFileDriverClose_v2)
DS_FUNCTION(cuFileDriverGetProperties)
DS_FUNCTION(cuFileGetVersion)
DS_FUNCTION(cuFileHandleRegister)
DS_FUNCTION(cuFileHandleDeregister)
DS_FUNCTION(cuFileBufRegister)
DS_FUNCTION(cuFileBufDeregister)
DS_FUNCTION(cuFileRead)
DS_FUNCTION(cuFileWrite)
