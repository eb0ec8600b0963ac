"""lt on the command line: `lt fit --config run.yaml`, and LightningCLI for your own scripts."""
