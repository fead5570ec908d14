"""For each rule of the doctor a patient that it must find, `sick`, and one that it must pass, `well`."""
